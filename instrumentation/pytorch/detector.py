"""Does an operator do what its schema does not say: write to an argument, alias one, draw numbers?

A recording believes schemas, the table of `undeclared`, and storages. This mode believes nothing:
it keeps a copy of the whole storage of every argument of every operator, and compares bytes after
the operator has run. It is slow, and meant for tests and for a look at a model before trusting a
recording of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch._subclasses.fake_tensor import FakeTensor

from dtrdiag.instrumentation.pytorch.contexts import OneProcessMode
from dtrdiag.instrumentation.pytorch.describe import storage_id, tensors_in
from dtrdiag.instrumentation.pytorch.errors import (
    RecordingError,
    UndeclaredWriteError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.outside import KnownBytes, bytes_of
from dtrdiag.instrumentation.pytorch.undeclared import UNDECLARED_WRITES

Declared = Mapping[str, Callable[[Mapping[str, Any]], frozenset[str]]]
"""By overload name, what gives the names of written arguments from the arguments by name."""

KNOWN_ALIASES = frozenset({"aten._unsafe_view.default", "aten.unsafe_split.Tensor"})
"""Operators of PyTorch that alias arguments without saying so, among those of the zoo.

Nothing depends on this table: recordings and live runs tell aliases by storage.
"""

OUTSIDE = "outside"
_WHAT = {
    "write": "writes to",
    "alias": "returns a view of",
    "random": "draws from",
}


@attrs.frozen(order=True)
class Finding:
    """One thing that an operator did and does not declare."""

    kind: str
    """`write`, `alias` or `random`; `outside`: what was written, and by no operator."""
    op: str
    """Overload name, such as `aten.native_batch_norm.default`; of `outside`, where it was seen."""
    argument: str
    """Name of the argument concerned, `the global generator` where it is none."""

    def __str__(self) -> str:
        if self.kind == OUTSIDE:
            return (
                f"{self.op}: {self.argument} was written before, and by no operator: through "
                "NumPy, say, or a pointer"
            )
        return f"{self.op} {_WHAT[self.kind]} {self.argument} without saying so"


class WriteDetector(OneProcessMode):
    """While it is entered, looks at every operator that is dispatched.

    What a kernel does to tensors that are no arguments of it, it cannot see.

    Args:
        declared: which writes are known besides those of schemas, as `UNDECLARED_WRITES` has them.

    Raises:
        RecordingError: an argument is fake or on meta, and holds nothing to compare.
        UnsupportedOpError: an argument is no plain strided tensor, or an operator has no schema.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # See `contexts.OwnMode`: a recording that is checked is the same recording.
        return False

    def __init__(self, declared: Declared = UNDECLARED_WRITES) -> None:
        super().__init__()
        self._declared = declared
        self._found: dict[Finding, int] = {}
        self._known = KnownBytes()
        self.operators: dict[str, int] = {}
        """How often each operator was looked at, by overload name."""

    @property
    def findings(self) -> dict[Finding, int]:
        """What was found and how often, in the order of first appearance."""
        return dict(self._found)

    def of_kind(self, kind: str) -> list[Finding]:
        """The findings of one kind, sorted."""
        return sorted(found for found in self._found if found.kind == kind)

    def check(self) -> None:
        """Refuse what would make a recording wrong: writes and random numbers, not aliases.

        Raises:
            UndeclaredWriteError: an operator wrote to an argument without saying so, or something
                else than an operator wrote.
            RecordingError: an operator drew random numbers without saying so.
        """
        for found in (*self.of_kind("write"), *self.of_kind(OUTSIDE)):
            raise UndeclaredWriteError(str(found))
        for found in self.of_kind("random"):
            raise RecordingError(str(found))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator between two looks at its arguments."""
        kwargs = kwargs or {}
        if self.forked:
            return func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):
            raise UnsupportedOpError(f"{func} is not a plain operator of PyTorch and has no schema")
        named = {a.name: v for a, v in zip(func._schema.arguments, args, strict=False)}
        named.update(kwargs)
        before = _Before(str(func), named)
        outside = before.outside(self._known)
        result = func(*args, **kwargs)
        self.operators[str(func)] = self.operators.get(str(func), 0) + 1
        before.note(self._known, result, self._may_write(func, named))
        for found in (
            *outside,
            *before.writes(self._may_write(func, named)),
            *before.aliases(func, result),
            *before.draws(func),
        ):
            self._found[found] = self._found.get(found, 0) + 1
        return result

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        """Look at no operator any more, and once more at what they have left."""
        super().__exit__(kind, error, traceback)
        if kind is None and not self.forked:
            for op in self._known.all_changed():
                found = Finding(OUTSIDE, "the end of the block", f"what {op} left")
                self._found[found] = self._found.get(found, 0) + 1

    def _may_write(self, func: Any, named: Mapping[str, Any]) -> frozenset[str]:
        said = (a.name for a in func._schema.arguments if a.alias_info and a.alias_info.is_write)
        known = self._declared.get(str(func))
        return frozenset(said) | (known(named) if known else frozenset())


def detect_writes(declared: Declared = UNDECLARED_WRITES) -> WriteDetector:
    """A mode that finds undeclared writes, aliases and random numbers while it is entered.

    ```py
    with detect_writes() as found:
        step.run()
    found.check()
    ```
    """
    return WriteDetector(declared)


class _Before:
    """The arguments of one call and the random state, as they were before it."""

    def __init__(self, op: str, named: Mapping[str, Any]) -> None:
        self._op = op
        self._names: dict[int, list[str]] = {}
        self._storages: dict[int, tuple[Any, Any]] = {}
        self._tensors: dict[int, Any] = {}
        self._news: set[int] = set()
        self._generators = {"the global generator": torch.default_generator}
        for name, value in named.items():
            if isinstance(value, torch.Generator):
                self._generators[name] = value
            for tensor in tensors_in(value, op):
                self._keep(name, tensor)
        self._states = {name: each.get_state() for name, each in self._generators.items()}

    def _keep(self, name: str, tensor: Any) -> None:
        if isinstance(tensor, FakeTensor) or tensor.device.type == "meta":
            raise RecordingError(f"{self._op}: {name} holds nothing to compare: use real tensors")
        key = storage_id(tensor)
        names = self._names.setdefault(key, [])
        if name not in names:
            names.append(name)
        if key not in self._storages:
            storage = tensor.untyped_storage()
            try:
                self._storages[key] = (storage, storage.clone())
                self._tensors[key] = tensor
            except RuntimeError:
                raise UnsupportedOpError(f"{self._op}: {name} has no bytes of its own") from None

    def outside(self, known: KnownBytes) -> list[Finding]:
        """Arguments that were written since an operator had them."""
        changed = {key: known.changed(tensor) for key, tensor in self._tensors.items()}
        self._news = {key for key, is_changed in changed.items() if is_changed is not False}
        return [Finding(OUTSIDE, self._op, self._names[key][0]) for key in changed if changed[key]]

    def note(self, known: KnownBytes, result: Any, written: frozenset[str]) -> None:
        """What the operator has left is what its arguments and results have to be."""
        for key, tensor in self._tensors.items():
            storage, kept = self._storages[key]
            same = written.isdisjoint(self._names[key]) and _same_bytes(storage, kept)
            if key in self._news or not same:
                known.note(tensor, self._op)
        for tensor in tensors_in(result, self._op):
            if storage_id(tensor) not in self._tensors and not isinstance(tensor, FakeTensor):
                known.note(tensor, self._op)

    def writes(self, allowed: frozenset[str]) -> list[Finding]:
        """Arguments whose storage has other bytes now, unless one on it may be written."""
        found = []
        for key, (storage, kept) in self._storages.items():
            names = self._names[key]
            if allowed.isdisjoint(names) and not _same_bytes(storage, kept):
                found.append(Finding("write", self._op, names[0]))
        return found

    def aliases(self, func: Any, result: Any) -> list[Finding]:
        """Arguments on whose storage a result lies that the schema says is fresh."""
        returns = func._schema.returns
        results = [result] if len(returns) == 1 else list(result or ())
        found = []
        for declared, value in zip(returns, results, strict=False):
            if declared.alias_info is not None:
                continue
            for tensor in tensors_in(value, self._op):
                # A storage of no bytes may stand for any other.
                names = self._names.get(storage_id(tensor)) if tensor.numel() else None
                if names and Finding("alias", self._op, names[0]) not in found:
                    found.append(Finding("alias", self._op, names[0]))
        return found

    def draws(self, func: Any) -> list[Finding]:
        """Generators that are in another state now, unless the operator is tagged as random."""
        if torch.Tag.nondeterministic_seeded in func.tags:
            return []
        return [
            Finding("random", self._op, name)
            for name, generator in self._generators.items()
            if not torch.equal(generator.get_state(), self._states[name])
        ]


def _same_bytes(one: Any, other: Any) -> bool:
    return bool(one.nbytes() == other.nbytes() and torch.equal(bytes_of(one), bytes_of(other)))
