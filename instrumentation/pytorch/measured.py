"""What does one execution of a dispatched operator cost: measured on this machine, and kept?

Measured times differ from run to run. A table that was saved and read again gives the same costs
each time, so that recordings made with it are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dtrdiag.errors import InputError, OutputError, UsageError
from dtrdiag.files import read_bytes
from dtrdiag.instrumentation.pytorch.costs import costs_nothing
from dtrdiag.instrumentation.pytorch.errors import RecordingError
from dtrdiag.instrumentation.pytorch.traffic import storage_key

FORMAT = "dtrdiag costs of operators"
VERSION = 1
REPETITIONS = 9
_HEADER = ("device", "torch", "threads", "repetitions")
_NUMBERS = ("threads", "repetitions")


class Measured:
    """The median of some executions of an operator on this machine, by operator and shapes.

    Operators run on the device of their arguments (the CPU for meta tensors), on tensors of the
    same shapes and strides made for the purpose: neither the program's values nor its random state
    are touched. Floats are 0.5, integers 0. On CUDA, times are those between two events.

    Args:
        repetitions: how many executions the median is taken of, after one that does not count.

    Raises:
        UsageError: there is to be no repetition.
    """

    name = "measured"

    def __init__(self, repetitions: int = REPETITIONS) -> None:
        if not _is_count(repetitions):
            raise UsageError(f"repetitions are a whole number from 1 on, not {repetitions!r}")
        self._measures = True
        self._costs: dict[str, int] = {}
        self._header: dict[str, Any] = {
            "device": "",
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "repetitions": repetitions,
        }

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Measured:
        """The costs in a table that `save` wrote; what is not in it is refused, not measured.

        Raises:
            InputError: there is no such file, or it is no such table.
        """
        path = os.fspath(path)
        try:
            table = json.loads(read_bytes(path))
        except (ValueError, RecursionError) as error:
            raise InputError(f"not a table of costs: {error}", path=path) from error
        if (fault := _fault_of(table)) is not None:
            raise InputError(f"not a table of costs: {fault}", path=path)
        model = cls(table["repetitions"])
        model._measures = False
        model._header = {field: table[field] for field in _HEADER}
        model._costs = dict(sorted(table["costs_ns"].items()))
        return model

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Write the table as JSON, operators in order of their names.

        Raises:
            OutputError: the file exists (without `force`), or cannot be written.
        """
        table = {
            "format": FORMAT,
            "version": VERSION,
            **self._header,
            "costs_ns": dict(sorted(self._costs.items())),
        }
        try:
            with open(path, "w" if force else "x", encoding="utf-8") as stream:
                json.dump(table, stream, indent=0)
                stream.write("\n")
        except FileExistsError:
            raise OutputError("the file exists; force replaces it", path=path) from None
        except OSError as error:
            raise OutputError(f"cannot be written: {error.strerror}", path=path) from error

    def describe(self) -> dict[str, Any]:
        """Metadata: the device, torch's version, threads, repetitions, and a digest of the table.

        The digest is over the costs known so far; it names the table that gives the same ones.
        """
        costs = json.dumps(sorted(self._costs.items()), separators=(",", ":"))
        digest = hashlib.sha256(costs.encode()).hexdigest()
        return {"model": self.name, **self._header, "sha256": digest}

    def cost_ns(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        outputs: Sequence[Any],
        moved_bytes: int,
    ) -> int:
        """See `CostModel`; at least 1 for what is executed at all. `moved_bytes` is not used.

        Raises:
            RecordingError: the table was read from a file and has no such operator with such
                shapes, or the operator fails on tensors made for the purpose.
        """
        if costs_nothing(func, args, outputs):
            return 0
        key = key_of(func, args, kwargs)
        cost = self._costs.get(key)
        if cost is None:
            if not self._measures:
                raise RecordingError(f"the table of measured costs does not have {key}")
            cost = self._costs[key] = self._measure(func, args, kwargs, key)
        return cost

    def _measure(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], key: str) -> int:
        with _undisturbed():
            twins = _Twins()
            made = twins.like(list(args)), twins.like(dict(kwargs))
            self._header["device"] = self._header["device"] or device_title(twins.device)
            run = _timer(twins.device)
            times = []
            try:
                for _ in range(1 + self._header["repetitions"]):
                    twins.fill()
                    times.append(run(lambda: func(*made[0], **made[1])))
            except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
                what = f"cannot be executed to be measured: {key}: {error}"
                raise RecordingError(what) from error
        return max(1, statistics.median_low(times[1:]))


def key_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What a cost is kept by: the operator, and its arguments without the values of floats.

    Tensors are written as dtype, shape and strides, and their device unless it is the CPU; the
    values of floats, such as the rate of learning, change from step to step and take no time.
    """
    parts = [_written(value) for value in args]
    parts += [f"{name}={_written(value)}" for name, value in sorted(kwargs.items())]
    return f"{func.name()}({', '.join(parts)})"


def _written(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        device = "" if value.device.type in ("cpu", "meta") else f"@{value.device.type}"
        return f"{dtype}{list(value.shape)}/{list(value.stride())}{device}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, (float, complex, torch.Generator)):
        return type(value).__name__
    return str(value)


class _Twins:
    """Real tensors with the shapes and strides of given ones, sharing storages as they do."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._buffers: dict[int, Any] = {}

    def like(self, value: Any) -> Any:
        """An argument with every tensor in it replaced; generators become None, the default."""
        if isinstance(value, torch.Tensor):
            return self._twin(value)
        if isinstance(value, (list, tuple)):
            return type(value)(self.like(each) for each in value)
        if isinstance(value, dict):
            return {name: self.like(each) for name, each in value.items()}
        return None if isinstance(value, torch.Generator) else value

    def fill(self) -> None:
        """Give every element its value again, which a run in place may have changed."""
        for buffer in self._buffers.values():
            buffer.fill_(0.5 if buffer.is_floating_point() or buffer.is_complex() else 0)

    def _twin(self, tensor: Any) -> Any:
        device = tensor.device if tensor.device.type != "meta" else torch.device("cpu")
        # A step counter may stay on the CPU where all else is on a GPU.
        self.device = device if device.type != "cpu" else self.device
        buffer = self._buffers.get(key := storage_key(tensor))
        if buffer is None:
            count = tensor.untyped_storage().nbytes() // tensor.element_size()
            buffer = torch.empty(count, dtype=tensor.dtype, device=device)
            self._buffers[key] = buffer
        twin = torch.empty(0, dtype=tensor.dtype, device=device)
        shape, stride = tuple(tensor.shape), tensor.stride()
        return twin.set_(buffer.untyped_storage(), tensor.storage_offset(), shape, stride)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without dispatch modes, gradients or a trace in the random state."""
    with _disable_current_modes(), torch.no_grad():
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        with torch.random.fork_rng(devices=devices):
            yield


def _timer(device: Any) -> Callable[[Callable[[], Any]], int]:
    """What executes something once and says how many nanoseconds it took."""
    if device.type != "cuda":
        return _time_here

    def between_events(execute: Callable[[], Any]) -> int:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(device)
        start.record()
        result = execute()
        end.record()
        torch.cuda.synchronize(device)
        del result
        return int(start.elapsed_time(end) * 1_000_000 + 0.5)

    return between_events


def _time_here(execute: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    result = execute()
    elapsed = time.perf_counter_ns() - start
    del result  # freeing it does not count
    return elapsed


def device_title(device: Any) -> str:
    """The name of a device of this machine, as its maker gives it where that is known."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            for line in lines:
                field, _, title = line.partition(":")
                if field.strip() == "model name":
                    return title.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _fault_of(table: Any) -> str | None:
    """What keeps a document from being a table of costs, if anything does."""
    if not isinstance(table, dict) or table.get("format") != FORMAT:
        return f'its "format" is not "{FORMAT}"'
    if table.get("version") != VERSION:
        return f"its version is {table.get('version')!r}, not {VERSION}"
    for field in _HEADER:
        value = table.get(field)
        if not (_is_count(value) if field in _NUMBERS else isinstance(value, str)):
            return f"{field} is {value!r}"
    costs = table.get("costs_ns")
    if not isinstance(costs, dict):
        return "it has no costs_ns"
    for key, cost in costs.items():
        if not _is_count(cost):
            return f"the cost of {key} is {cost!r}"
    return None
