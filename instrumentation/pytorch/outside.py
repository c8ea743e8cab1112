"""Were the bytes of a tensor changed since an operator had them, and by no operator?

NumPy, pointers and other libraries write to memory without a word to PyTorch: no version counts it.
So checksums are kept of what operators were given and made.
"""

from __future__ import annotations

import contextlib
import weakref
import zlib
from typing import Any

import torch

from dtrdiag.instrumentation.pytorch.describe import storage_id


class KnownBytes:
    """Checksums of storages that are alive, as the last operator on each left them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int, str]] = {}

    def note(self, tensor: Any, op: str) -> None:
        """An operator has read, written or made a tensor; its storage is as it has to be."""
        storage = tensor.untyped_storage()
        with contextlib.suppress(RuntimeError):  # it has no bytes of its own
            self._known[storage_id(tensor)] = weakref.ref(storage), _checksum(storage), op

    def changed(self, tensor: Any) -> bool | None:
        """Whether the storage of a tensor is not as it was left; None: it is not known."""
        known = self._known.get(storage_id(tensor))
        # Another storage may have the identity of one that died.
        if known is None or known[0]() is None:
            return None
        return known[1] != _checksum(tensor.untyped_storage())

    def all_changed(self) -> list[str]:
        """Of the storages that are not as they were left, the operators that had them last."""
        alive = [(reference(), checksum, op) for reference, checksum, op in self._known.values()]
        return [op for storage, left, op in alive if storage and _checksum(storage) != left]


def bytes_of(storage: Any) -> Any:
    """A storage as a tensor of bytes."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _checksum(storage: Any) -> int:
    return zlib.crc32(bytes_of(storage).cpu().numpy()) if storage.nbytes() else 0
