"""A recording is the program's own: the same bytes each time, faithful to memory, or refused."""

import gc
import os
import re
import threading
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.data import DataLoader, Dataset

from dtrdiag.errors import OutputError
from dtrdiag.instrumentation import zoo
from dtrdiag.instrumentation.pytorch import record, record_step, remat
from dtrdiag.instrumentation.pytorch.errors import (
    RecordingError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.logsink import recording_of
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace import write_dtr_log

PAGE = Path(__file__).resolve().parents[2] / "docs" / "recording.md"


def recorded(make, fake=False, **options):
    if fake:
        with FakeTensorMode():
            return recorded(make, **options)
    model, step = make()
    with record(None, model, **options) as recording:
        step()
    return recording


def small(name):
    step = zoo.make(name, "small")
    return step.model, step.run


def written_through_a_view():
    model, inputs = nn.Linear(4, 6), torch.ones(3, 4)

    def step():
        whole = model(inputs)
        left, right = whole.chunk(2, dim=1)
        with torch.no_grad():
            left.mul_(2)
            torch.add(right, 1, out=right)
            whole[:, 0] = 5
        (whole * whole).sum().backward()

    return model, step


def accumulated():
    model, inputs = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), torch.ones(3, 4)

    def step():
        for _ in range(2):
            model(inputs).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)

    return model, step


def checkpointed():
    model, inputs = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 1)), torch.ones(3, 4)

    def step():
        torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=False).sum().backward()

    return model, step


def in_low_precision():
    model, inputs = nn.Linear(4, 4), torch.ones(3, 4)

    def step():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = model(inputs) + model(inputs)
        out.float().sum().backward()

    return model, step


def set_by_a_mask():
    model, inputs = nn.Linear(4, 4), torch.ones(3, 4)

    def step():
        out = model(inputs).detach()
        out[out > 0] = 5
        out.sum()

    return model, step


PROGRAMS = [
    *(pytest.param(lambda name=name: small(name), id=name) for name in zoo.MODELS),
    written_through_a_view,
    accumulated,
    checkpointed,
    in_low_precision,
    set_by_a_mask,
]


@pytest.mark.parametrize("make", PROGRAMS)
def test_recordings_on_real_and_on_fake_tensors_are_the_same_bytes(make):
    real = recorded(make)
    assert recorded(make).content == real.content
    assert recorded(make, fake=True).content == real.content
    assert write_dtr_log(real.trace) == real.content


class Alive(TorchDispatchMode):  # type: ignore[misc]
    """Counts bytes of storages that are alive, by weak references and nothing else."""

    def __init__(self, tensors):
        super().__init__()
        self.sizes, self.peak = {}, 0
        for tensor in tensors:
            self.see(tensor)

    def see(self, tensor):
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.sizes:
            self.sizes[key] = (storage.nbytes(), weakref.ref(storage, lambda _: self.gone(key)))

    def gone(self, key):
        del self.sizes[key]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        parts = result if isinstance(result, (tuple, list)) else [result]
        for tensor in [*args, *parts]:
            if isinstance(tensor, torch.Tensor):
                self.see(tensor)
        self.peak = max(self.peak, sum(size for size, _ in self.sizes.values()))
        return result


@pytest.mark.parametrize("make", [lambda: small("transformer"), accumulated, checkpointed])
def test_its_peak_is_what_the_program_holds(make):
    model, step = make()
    gc.disable()
    try:
        with Alive([*model.parameters(), *model.buffers()]) as alive:
            step()
    finally:
        gc.enable()
    assert recorded(make).peak_bytes == alive.peak


@pytest.mark.parametrize("make", PROGRAMS)
def test_the_base_of_ratios_is_what_an_unlimited_run_needs(make):
    trace = recorded(make, fake=True).trace
    peak = baseline_peak_bytes(trace)
    assert simulate(trace, RunConfig("lru")).end.max_memory_bytes == peak
    assert simulate(trace, RunConfig("lru", peak)).end.remats == 0


def test_without_writes_the_peak_of_the_log_is_that_of_the_program():
    for name in ("transformer", "gpt2", "lstm"):
        recording = recorded(lambda name=name: small(name), fake=True)
        assert baseline_peak_bytes(recording.trace) == recording.peak_bytes


def test_a_sink_takes_no_memory_and_a_copy_does():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)

    def peak(writes):
        model.zero_grad(set_to_none=True)
        with record(None, model, optimizer, writes=writes) as recording:
            model(torch.ones(1, 64)).sum().backward()
            optimizer.step()
        return simulate(recording.trace, RunConfig("lru")).end.max_memory_bytes

    weight = model.weight.numel() * 4
    assert peak("copy") - peak("sink") > weight * 0.9


def test_random_operators_are_listed():
    said = recording_of(recorded(lambda: small("transformer")).trace.preamble)
    assert said["random"]


def in_a_thread():
    (torch.ones(2) + 1).sum()
    thread = threading.Thread(target=lambda: torch.ones(2) + 1)
    thread.start()
    thread.join()


REFUSED = {
    "nonzero": (lambda: torch.ones(3).nonzero(), "depend on data"),
    "mask": (lambda: (a := torch.ones(3))[a > 0], "mask"),
    "sparse": (lambda: torch.ones(3, 3).to_sparse(), "layout|sparse|depend"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8),
        "quantized",
    ),
    "resize_": (lambda: torch.ones(3).resize_(9), "another storage or size"),
    "set_": (lambda: torch.ones(3).set_(torch.ones(2)), "another storage or size"),
    "meta": (lambda: torch.ones(3, device="meta") + 1, "meta"),
}


@pytest.mark.parametrize("fake", [False, True], ids=["real", "fake"])
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_told_is_refused_by_name(what, fake, tmp_path):
    step, said = REFUSED[what]
    path = tmp_path / "step.log"
    mode = FakeTensorMode() if fake else torch.enable_grad()
    with mode, pytest.raises(RecordingError, match=said), record(path):
        step()
    assert not list(tmp_path.iterdir())
    assert not _get_current_dispatch_mode_stack()
    assert gc.isenabled()


def test_a_refusal_that_the_program_catches_comes_again(tmp_path):
    def step():
        try:
            torch.ones(3).nonzero()
        except UnsupportedOpError:
            torch.ones(2)

    with pytest.raises(UnsupportedOpError, match="depend on data"), record(tmp_path / "a.log"):
        step()
    assert not list(tmp_path.iterdir())


def test_operators_of_a_thread_of_the_block_are_refused():
    with pytest.raises(RecordingError, match="in a thread"), record():
        in_a_thread()


def test_a_thread_that_computes_nothing_does_not_matter():
    with record() as recording:
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
        (torch.ones(2) + 1).sum()
    assert recording.trace.ops == 3
    assert threading.getprofile() is None


def in_another_process(work):
    """Whether it goes well in a process that is forked here."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("context", [record, lambda: record(check=True), lambda: remat(None)])
def test_operators_of_a_forked_process_are_its_own(context):
    with context():
        torch.ones(3) + 1
        # Here that would be refused.
        assert in_another_process(lambda: torch.ones(3).nonzero())


class Squares(Dataset):  # type: ignore[misc]
    def __len__(self):
        return 4

    def __getitem__(self, number):
        return torch.full((3,), float(number)).square()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_batches_of_a_worker_process_are_inputs():
    with record() as recording:
        for batch in DataLoader(Squares(), batch_size=2, num_workers=1):
            batch.sum()
    assert not any("square" in name for name in recording.trace.op_name)
    assert recording.trace.op_name.count("aten.sum.default") == 2
    given = {"name": "input0", "shape": [2, 3], "dtype": "float32"}
    assert given in recording.metadata["inputs"]


def test_a_workspace_that_fake_tensors_do_not_know_is_refused():
    def make():
        model = nn.LSTM(4, 4)
        return model, lambda: model(torch.ones(2, 1, 4))[0].sum().backward()

    with pytest.raises(UnsupportedOpError, match="mkldnn"):
        recorded(make, fake=True)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert recorded(make, fake=True).content == recorded(make).content
    finally:
        torch._C._set_mkldnn_enabled(True)


def fails_after(model):
    model(torch.ones(1, 2))
    raise ZeroDivisionError


def test_an_exception_in_the_block_writes_nothing_and_is_the_one_that_comes_out(tmp_path):
    model = nn.Linear(2, 2)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(ZeroDivisionError), record(tmp_path / "a.log", model):
        fails_after(model)
    assert not list(tmp_path.iterdir())
    assert all(map(torch.equal, before, model.parameters()))
    assert not _get_current_dispatch_mode_stack()


def test_a_block_without_operators_is_nothing_to_record():
    with pytest.raises(RecordingError, match="nothing was recorded"), record():
        pass


def test_a_file_that_is_there_is_refused_before_the_step_runs(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("mine")
    with pytest.raises(OutputError, match="exists"):
        record(path)
    with record(path, force=True):
        torch.ones(2) + 1
    assert b"RECORDING" in path.read_bytes()


def test_the_page_shows_what_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = {}
    for shown in re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(shown, str(PAGE), "exec"), names)  # noqa: S102 - our own docs
    assert record_step(names["step"]()).trace.ops > 10
    ops, peak = capsys.readouterr().out.split()
    assert int(ops) > 10
    assert int(peak) > 0
