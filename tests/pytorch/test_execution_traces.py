"""Execution traces that PyTorch writes, against an independent count of the same step."""

import weakref

import pytest
import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from dtrdiag.simulator import baseline_peak_bytes
from dtrdiag.trace.catalog import resolve_with_notes
from dtrdiag.trace.chakra import read_execution_trace


def tensors(values):
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


class Watch(TorchDispatchMode):  # type: ignore[misc]
    """Notes what each dispatched operator reads, makes and writes, by storage.

    A storage is the same one until it dies, as weak references tell.
    """

    def __init__(self):
        super().__init__()
        self.ops, self.sizes, self._numbers, self._deaths = [], [], {}, []

    def number(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._numbers:
            self._numbers[key] = len(self.sizes)
            self.sizes.append(0)
            self._deaths.append(weakref.ref(storage, lambda _, key=key: self._numbers.pop(key)))
        number = self._numbers[key]
        self.sizes[number] = max(self.sizes[number], storage.nbytes())
        return number

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        read = {self.number(tensor) for tensor in tensors((args, kwargs))}
        written = set()
        for argument, value in zip(func._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written |= {self.number(tensor) for tensor in tensors(value)}
        result = func(*args, **kwargs)
        handed_back = {self.number(tensor) for tensor in tensors(result)}
        self.ops.append((read, written, handed_back))
        return result


def peak_of(watch, gradients):
    """Most bytes at once: each storage from the op that makes it to the last one that mentions it.

    What the last op hands back stays, as do gradients and what was there before. While a storage
    is written, there are two of it.
    """
    constants, first, last = set(), {}, {}
    for at, (read, _, handed_back) in enumerate(watch.ops):
        constants |= read - first.keys() - constants
        for storage in handed_back - read - constants:
            first.setdefault(storage, at)
        for storage in read | handed_back:
            last[storage] = at
    for storage, at in last.items():
        _, written, handed_back = watch.ops[at]
        if storage in written | handed_back | gradients | constants:
            last[storage] = len(watch.ops)
    most = 0
    for at, (_, written, _) in enumerate(watch.ops):
        there = {storage for storage in first if first[storage] <= at <= last[storage]}
        held = [*there, *constants, *(written - constants)]
        most = max(most, sum(watch.sizes[storage] for storage in held))
    return most


def mlp():
    layers = nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4)
    return nn.Sequential(*layers), torch.randn(32, 8), torch.randint(0, 4, (32,))


def convolutions():
    layers = (
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip
    return nn.Sequential(*layers), torch.randn(4, 3, 16, 16), torch.randint(0, 10, (4,))


def encoder():
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
    layers = nn.Embedding(50, 16), layer, nn.Flatten(), nn.Linear(12 * 16, 5)
    model, classes = nn.Sequential(*layers), torch.randint(0, 5, (4,))
    return model, torch.randint(0, 50, (4, 12)), classes


class Checkpointed(nn.Module):  # type: ignore[misc]
    """Its hidden layer is computed again in the backward pass, up to where it suffices."""

    def __init__(self):
        super().__init__()
        self.first, self.hidden, self.last = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, inputs):
        def hidden(values):
            return torch.relu(self.hidden(values))

        values = nn.functional.silu(self.first(inputs), inplace=True)
        return self.last(checkpoint(hidden, values, use_reentrant=False))


def checkpointed():
    return Checkpointed(), torch.randn(16, 8), torch.randint(0, 4, (16,))


def gated():
    class Last(nn.Module):
        def forward(self, result):
            return result[0][:, -1]

    layers = nn.GRU(4, 8, batch_first=True), Last(), nn.Linear(8, 4)
    return nn.Sequential(*layers), torch.randn(16, 3, 4), torch.randint(0, 4, (16,))


class Step:
    """Forward and backward of a model, as often as wanted."""

    def __init__(self, make):
        torch.manual_seed(0)
        self.model, self.inputs, self.classes = make()
        self.run()

    def clear(self):
        for parameter in self.model.parameters():
            parameter.grad = None

    def run(self):
        nn.functional.cross_entropy(self.model(self.inputs), self.classes).backward()

    def watched(self):
        self.clear()
        with Watch() as watch:
            self.run()
        gradients = {watch.number(parameter.grad) for parameter in self.model.parameters()}
        return watch, gradients

    def observed(self, folder):
        self.clear()
        observer = ExecutionTraceObserver()
        observer.register_callback(str(folder / "step.json"))
        with profile(activities=[ProfilerActivity.CPU], execution_trace_observer=observer) as timed:
            self.run()
        timed.export_chrome_trace(str(folder / "step.kineto.json"))
        return folder / "step.json"


MAKERS = [mlp, convolutions, encoder, checkpointed, gated]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_the_peak_is_that_of_an_independent_count(make, tmp_path):
    step = Step(make)
    watch, gradients = step.watched()
    trace = resolve_with_notes(step.observed(tmp_path))[0]
    assert baseline_peak_bytes(trace) == peak_of(watch, gradients)


@pytest.mark.parametrize("make", [mlp, convolutions], ids=lambda make: make.__name__)
def test_each_operator_that_computes_is_there_once(make, tmp_path):
    step = Step(make)
    watch, _ = step.watched()
    computed = sum(bool(written or handed - read) for read, written, handed in watch.ops)
    found = read_execution_trace(step.observed(tmp_path))
    assert found.operators - found.views == computed
    assert found.constants == len(list(step.model.parameters())) + 2 + (
        3 if make is convolutions else 0
    )  # and the inputs, and what batch norm keeps


def test_an_optimizer_writes_to_constants_and_adds_no_memory(tmp_path):
    step = Step(mlp)
    optimizer = torch.optim.SGD(step.model.parameters(), lr=0.1)
    before = baseline_peak_bytes(read_execution_trace(step.observed(tmp_path)).trace)
    run = step.run
    step.run = lambda: (run(), optimizer.step())
    found = read_execution_trace(step.observed(tmp_path))
    assert found.constant_writes == len(list(step.model.parameters()))
    assert found.random == 1
    assert baseline_peak_bytes(found.trace) == before
    assert found.trace.baseline_cost_ns > 0
