"""Which operators does a step of an unmodified PyTorch program execute? Written as a DTR log.

`record` watches what is dispatched below autograd, on real tensors or under `FakeTensorMode`, and
when storages die. docs/recording.md says how each kind of operator is recorded, and what is not.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)

from dtrdiag.errors import DtrdiagError
from dtrdiag.instrumentation.pytorch.contexts import OwnMode, QuietCollector, refuse_compiled
from dtrdiag.instrumentation.pytorch.costs import CostModel, Roofline
from dtrdiag.instrumentation.pytorch.describe import (
    LIFTS,
    Arguments,
    Plan,
    arguments_of,
    check_classes,
    check_plain,
    facts_of,
    is_received,
    plan_of,
    storage_id,
    tensors_in,
)
from dtrdiag.instrumentation.pytorch.detector import WriteDetector
from dtrdiag.instrumentation.pytorch.encoding import Encoder, Held
from dtrdiag.instrumentation.pytorch.errors import RecordingError, UnsupportedOpError
from dtrdiag.instrumentation.pytorch.geometry import view_of
from dtrdiag.instrumentation.pytorch.kernels import call_resolving, is_lazy
from dtrdiag.instrumentation.pytorch.logfile import check_log_path, write_log
from dtrdiag.instrumentation.pytorch.logsink import LogSink
from dtrdiag.instrumentation.pytorch.masks import mask_of, masked
from dtrdiag.instrumentation.pytorch.registering import (
    gradient_of,
    named_tensors,
    step_counters,
)
from dtrdiag.instrumentation.pytorch.threads import OtherThreads
from dtrdiag.trace.dtrlog import parse_dtr_log
from dtrdiag.trace.model import Trace

READS_VALUE = "reads a value, which fake tensors do not have; record on real tensors"


class record:  # noqa: N801 - reads as a statement: `with record(path, model) as r`
    """Record what a block of PyTorch code executes, as a DTR log.

    Every operator that is dispatched becomes a CALL, each storage is released when its last owner
    in Python or C++ drops it, and what lives on after the block are the outputs of the step.
    Parameters, buffers, the optimizer's state and whatever else was there before are constants.

    Under a `FakeTensorMode` entered before, nothing is computed and no memory is needed.

    Args:
        path: where the log goes (plain, .gz, .zst); None keeps it in memory.
        model: the `torch.nn.Module`, whose parameters and buffers are registered and named.
        optimizer: the `torch.optim.Optimizer`, if the block steps it.
        costs: what an execution costs; a roofline by default.
        writes: what a write to a constant is: "copy", a new version beside the old one, as a
            runtime must make it that may still need the old one, or "sink", in place.
        name: of the trace.
        sizes: what the program was made with, for the metadata.
        force: replace a file that is there.
        check: compare every argument of every operator before and after it, on real tensors; slow.

    Attributes:
        content: its log, uncompressed.
        metadata: what the log says of how it was recorded.
        constants: how many storages were there before.
        peak_bytes: most bytes that the program itself held at a time in tensors.

    Raises:
        NestedContextError: inside another recording or live run.
        OutputError: the file exists, or cannot be written.
        RecordingError: at the operator that cannot be recorded, and again at the end.
        UndeclaredWriteError: at the end, with `check`: an operator wrote without saying so.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        model: Any = None,
        optimizer: Any = None,
        *,
        costs: CostModel | None = None,
        writes: str = "copy",
        name: str | None = None,
        sizes: Mapping[str, Any] | None = None,
        force: bool = False,
        check: bool = False,
    ) -> None:
        self._path = None if path is None else os.fspath(path)
        self._force = force
        if self._path is not None:
            check_log_path(self._path, force=force)
        self._name = name or (type(model).__name__ if model is not None else "recording")
        self._sizes = dict(sizes or {})
        self._mode = _Recording(model, optimizer, costs or Roofline(), writes)
        self._collector = QuietCollector(collects=True)
        self._threads = OtherThreads()
        self._detector = WriteDetector() if check else None
        self._entered = False
        self._trace: Trace | None = None
        self.content = b""
        self.metadata: dict[str, Any] = {}

    @property
    def peak_bytes(self) -> int:
        """Most bytes that the program itself held at a time in tensors."""
        return self._mode.peak_bytes

    @property
    def trace(self) -> Trace:
        """The recorded step.

        Raises:
            RecordingError: the block has not ended yet, or not well.
        """
        if self._trace is None:
            raise RecordingError("nothing is recorded yet: the block has not ended, or not well")
        return self._trace

    @property
    def constants(self) -> int:
        """How many storages were there before the block."""
        return self._mode.constants

    def __enter__(self) -> record:
        if self._entered:
            raise RecordingError("a recording is of one block: make another for another")
        self._entered = True
        self._mode.begin()
        self._collector.begin()
        self._threads.begin()
        if self._detector is not None:
            # Below the recording, which then sees nothing of what it does.
            self._detector.__enter__()
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._mode.__exit__(kind, error, traceback)
        if self._detector is not None:
            self._detector.__exit__(kind, error, traceback)
        self._threads.end()
        self._collector.end()
        if kind is not None:
            self._mode.abandon()
            return
        if self._threads.computed is not None:
            self._mode.abandon()
            raise RecordingError(
                f"{self._threads.computed}: was called in a thread that the block started, where "
                "operators are not seen"
            )
        self.content, self.metadata = self._mode.finish(self._name, self._sizes)
        if self._detector is not None:
            self._detector.check()
        path = self._path or f"<recording of {self._name}>"
        self._trace = parse_dtr_log(self.content, name=self._name, path=path)
        if self._path is not None:
            write_log(self._path, self.content, force=self._force)


class _Recording(OwnMode):
    """Sees every operator of the program, executes it, and describes it."""

    def __init__(self, model: Any, optimizer: Any, costs: CostModel, writes: str) -> None:
        super().__init__()
        self._model, self._optimizer = model, optimizer
        self._costs = costs
        self._writes = writes
        self._sink = LogSink()
        self._encoder = Encoder(self._sink, writes)
        self._held: dict[int, tuple[Held, weakref.ref[Any]]] = {}
        self._counters: set[int] = set()
        self._inputs: list[dict[str, Any]] = []
        self._random: dict[str, list[int]] = {}
        self._failure: DtrdiagError | None = None
        self._over = False
        self._alive_bytes = self.peak_bytes = 0
        self.constants = 0

    def begin(self) -> None:
        """Register what is there before the step."""
        self.refuse_nested()
        try:
            self._register()
        except BaseException:
            self.abandon()
            raise

    def _register(self) -> None:
        for name, tensor in named_tensors(self._model, self._optimizer):
            if storage_id(tensor) not in self._held:
                self._constant(tensor, name)
        self._counters = {storage_id(tensor) for tensor in step_counters(self._optimizer)}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.forked:
            return func(*args, **kwargs)
        try:
            if self.is_compiling():
                return refuse_compiled(func, args, kwargs)
            if is_received(func, args):
                return self._lifted(func, args, kwargs)
            facts = facts_of(func)
            if facts.skipped:
                return func(*args, **kwargs)
            if facts.name in LIFTS:
                return self._lifted(func, args, kwargs)
            given = arguments_of(func, args, kwargs, storage_id)
            storages = [self._storage(tensor) for tensor in given.distinct]
            result = self._execute(func, args, kwargs, given)
            if facts.mask is not None:
                result = masked(result, mask_of(facts.mask, args, kwargs))
            plan = plan_of(func, args, kwargs, given, result, self._costs)
            self._take(plan, given, storages, result)
        except RecordingError as error:
            self._failure = error
            raise
        return result

    def finish(self, name: str, sizes: Mapping[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """The log of what was recorded, and its metadata.

        Raises:
            RecordingError: something could not be recorded, and the program went on all the same.
        """
        if self._failure is not None:
            raise self._failure
        for held, _ in self._held.values():
            self._encoder.keep_root_only(held)
        for held, reference in self._held.values():
            self._check_size(held, reference())
        self._encoder.settle()
        self.abandon()
        if self.forked:
            raise RecordingError("the block ended in another process than it began in")
        if not self._sink.ops:
            raise RecordingError("nothing was recorded: no operator of PyTorch was called")
        metadata = self._metadata(name, sizes)
        return self._sink.content(metadata), metadata

    def leave_behind(self) -> None:
        """In a forked process nothing is recorded."""
        super().leave_behind()
        self.abandon()

    def abandon(self) -> None:
        """Watch nothing any more."""
        self._over = True
        self._held.clear()

    def _execute(
        self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], given: Arguments
    ) -> Any:
        try:
            if is_lazy(view[0] for view in given.views):
                return call_resolving(func, args, kwargs)
            return func(*args, **kwargs)
        except DataDependentOutputException:
            # The value only scales what follows: any number of steps gives the same operators.
            if storage_id(args[0]) in self._counters:
                return 1.0
            raise UnsupportedOpError(f"{func}: {READS_VALUE}") from None
        except DynamicOutputShapeException:
            raise UnsupportedOpError(f"{func}: the sizes of its results depend on data") from None
        except UnsupportedOperatorException:
            raise UnsupportedOpError(
                f"{func}: has no kernel for fake tensors; record on real tensors"
            ) from None

    def _lifted(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A tensor made of values from outside: a constant, which fake tensors make a new one."""
        result = func(*args, **kwargs)
        check_plain(result, str(func))
        check_classes(func, [result])
        self._storage(result)
        return result

    def _take(self, plan: Plan, given: Arguments, storages: list[Held], result: Any) -> None:
        if plan.random:
            # An operator may come after aliases that its arguments need.
            before = self._sink.ops
        sizes = [held.nbytes for held in storages]
        fresh = self._encoder.apply(plan, storages)
        if plan.random and self._sink.ops > before:
            self._random.setdefault(plan.name, []).append(self._sink.ops - 1)
        seen = set()
        for (number, _), tensor in zip(plan.outputs, tensors_in(result), strict=True):
            if number < 0 and number not in seen:
                seen.add(number)
                if storage_id(tensor) in self._held:
                    raise UnsupportedOpError(f"{plan.name}: returns what it was not given")
                self._watch(tensor, fresh[~number])
        for number, tensor in enumerate(given.distinct):
            # A write may have resized it.
            storages[number].nbytes = tensor.untyped_storage().nbytes()
            self._alive_bytes += storages[number].nbytes - sizes[number]
        self.peak_bytes = max(self.peak_bytes, self._alive_bytes)

    def _storage(self, tensor: Any) -> Held:
        known = self._held.get(storage_id(tensor))
        if known is not None:
            self._check_size(known[0], tensor.untyped_storage())
            return known[0]
        label = f"input{len(self._inputs)}"
        shape = list(tensor.shape)
        self._inputs.append({"name": label, "shape": shape, "dtype": _dtype(tensor)})
        held = self._constant(tensor, label)
        gradient = gradient_of(tensor)
        if gradient is not None:
            self._storage(gradient)
        return held

    def _check_size(self, held: Held, storage: Any) -> None:
        if storage.nbytes() != held.nbytes:
            raise UnsupportedOpError(
                f"a storage of {held.nbytes} bytes has {storage.nbytes()} now: it was resized, and "
                "not by an operator"
            )

    def _constant(self, tensor: Any, label: str) -> Held:
        nbytes = tensor.untyped_storage().nbytes()
        held = self._encoder.constant(nbytes, view_of(tensor), label)
        self.constants += 1
        self._watch(tensor, held)
        return held

    def _watch(self, tensor: Any, held: Held) -> None:
        key = storage_id(tensor)
        reference = weakref.ref(tensor.untyped_storage(), lambda _: self._died(key))
        self._held[key] = held, reference
        self._alive_bytes += held.nbytes
        self.peak_bytes = max(self.peak_bytes, self._alive_bytes)

    def _died(self, key: int) -> None:
        if self._over:
            return
        held, _ = self._held.pop(key)
        self._alive_bytes -= held.nbytes
        if not held.constant or held.versions:
            self._encoder.died(held)

    def _metadata(self, name: str, sizes: Mapping[str, Any]) -> dict[str, Any]:
        model = self._model
        return {
            "costs": self._costs.describe(),
            "inputs": self._inputs,
            "model": None if model is None else type(model).__name__,
            "name": name,
            "optimizer": None if self._optimizer is None else type(self._optimizer).__name__,
            "parameter_dtypes": sorted({_dtype(p) for p in model.parameters()} if model else ()),
            "peak_bytes": self.peak_bytes,
            "random": self._random,
            "sizes": dict(sizes),
            "torch": str(torch.__version__),
            "training": None if model is None else bool(model.training),
            "writes": self._writes,
        }


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
