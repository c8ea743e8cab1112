"""How many bytes do the tensors that are alive really take? Counted by weak references alone.

A witness believes no books, of ours or of anyone: it sees the calls of real kernels, keeps a weak
reference to every storage among their arguments and results, and adds up those that are alive.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode


class Witness(TorchDispatchMode):  # type: ignore[misc]
    """Counts the bytes of storages while it is entered, outside of a live run.

    Args:
        known: tensors that count from the start, such as parameters.

    Attributes:
        alive_bytes: bytes of all storages that it has seen and that are alive.
        peak_bytes: the most that were alive after a kernel.
        kernels: how many it has seen.
    """

    def __init__(self, known: Iterable[Any] = ()) -> None:
        super().__init__()
        self.alive_bytes = self.peak_bytes = 0
        self.kernels = 0
        self._storages: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._see(known)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self._see(args)
        self._see(kwargs.values())
        result = func(*args, **kwargs)
        self._see((result,))
        # Again, since a kernel may have resized them.
        self._see(args)
        self.kernels += 1
        self.peak_bytes = max(self.peak_bytes, self.alive_bytes)
        return result

    def _see(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                # Fake tensors and those on the device "meta" have no bytes.
                if value.device.type != "meta" and not isinstance(value, FakeTensor):
                    self._count(value.untyped_storage())
            elif isinstance(value, (tuple, list)):
                self._see(value)

    def _count(self, storage: Any) -> None:
        key, nbytes = storage._cdata, storage.nbytes()
        known = self._storages.get(key)
        if known is not None:
            reference, before = known
            self.alive_bytes += nbytes - before
        else:
            reference = weakref.ref(storage, lambda _: self._died(key))
            self.alive_bytes += nbytes
        self._storages[key] = reference, nbytes

    def _died(self, key: int) -> None:
        _, nbytes = self._storages.pop(key)
        self.alive_bytes -= nbytes
