"""How does a Python file of the user add policies to those that `--policy` knows?

The file is run as a module, so that its `@policy` decorators register what it defines. It is the
user's own program: nothing is hidden from it, and whatever it raises is told in one line.
"""

from __future__ import annotations

import hashlib
import importlib.abc
import importlib.util
import os
import traceback
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import attrs

from dtrdiag.errors import DtrdiagError, PolicyError
from dtrdiag.files import read_bytes
from dtrdiag.simulator import Pool, Quotient, policies, unregister
from dtrdiag.simulator.policies import Factors, Policy, PolicyFunction, register

_LOADED: dict[str, tuple[str, tuple[str, ...]]] = {}
# For each file by its real path, the digest of its content and the names that it registered, so
# that loading it again replaces them.


@attrs.frozen
class PolicyFile:
    """A policy file as it was read: workers elsewhere need its content, and results stand for it.

    Attributes:
        path: where it was read from, for messages.
        content: its source.
    """

    path: str
    content: bytes = attrs.field(repr=False)

    @classmethod
    def read(cls, path: str) -> PolicyFile:
        """The file at a path.

        Raises:
            InputError: it cannot be read.
        """
        return cls(path, read_bytes(path))

    @property
    def sha256(self) -> str:
        """SHA-256 of the content."""
        return hashlib.sha256(self.content).hexdigest()

    def is_loaded(self) -> bool:
        """Whether this content is what the names of its policies stand for in this process."""
        return any(sha256 == self.sha256 for sha256, _ in _LOADED.values())

    def load(self) -> tuple[str, ...]:
        """Run the file and return the names of the policies that it registered, in order.

        Raises:
            PolicyError: it raised something, or registered no policy.
        """
        real = os.path.realpath(self.path)
        _forget(real)
        before = {entry.name for entry in policies()}
        try:
            _run(self)
        except BaseException as error:
            for entry in _added(before):
                unregister(entry.name)
            if isinstance(error, KeyboardInterrupt):
                raise
            raise _failure("the policy file failed", self.path, error) from error
        added = _added(before)
        if not added:
            what = "the file registers no policy (use the decorator @policy)"
            raise PolicyError(what, path=self.path)
        for entry in added:
            unregister(entry.name)
            register(_guarded(entry, self.path))
        names = tuple(entry.name for entry in added)
        _LOADED[real] = (self.sha256, names)
        return names


def load_policy_file(path: str) -> tuple[str, ...]:
    """Read and load a file, see `PolicyFile`.

    Raises:
        InputError: the file cannot be read.
        PolicyError: it raised something, or registered no policy.
    """
    return PolicyFile.read(path).load()


def policy_file_sha256(path: str | None) -> str | None:
    """SHA-256 of a policy file; None for no file.

    Raises:
        InputError: the file cannot be read.
    """
    return None if path is None else PolicyFile.read(path).sha256


def forget_policy_files() -> None:
    """Forget the policies of all files, so that the next call finds the names free."""
    for real in list(_LOADED):
        _forget(real)


def _forget(real: str) -> None:
    _, names = _LOADED.pop(real, ("", ()))
    for name in names:
        unregister(name)


class _Source(importlib.abc.SourceLoader):
    """Loads a module from bytes that were read already."""

    def __init__(self, file: PolicyFile) -> None:
        self._file = file

    def get_filename(self, fullname: str) -> str:
        return os.path.abspath(self._file.path)

    def get_data(self, path: str | bytes) -> bytes:
        return self._file.content


def _run(file: PolicyFile) -> None:
    if not file.path.endswith(".py"):
        raise PolicyError("a policy file must be Python, with a name ending in .py", path=file.path)
    spec = importlib.util.spec_from_loader("dtrdiag_policy_file", _Source(file))
    if spec is None or spec.loader is None:
        raise PolicyError("the policy file cannot be loaded", path=file.path)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _added(before: set[str]) -> list[Policy]:
    return [entry for entry in policies() if entry.name not in before]


def _guarded(entry: Policy, path: str) -> Policy:
    """The same policy; what its function raises becomes a `PolicyError` that names the line."""
    if isinstance(entry.score, Factors):
        return entry
    function: PolicyFunction = entry.score

    def score(pool: Pool) -> object:
        try:
            return _listed(function(pool))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit among them, which would look like success
            raise _failure(f"policy {entry.name!r} failed", path, error) from error

    return attrs.evolve(entry, score=score)


def _listed(answer: Any) -> Any:
    """The answer with what it computes late computed here, where its errors are told as its own."""
    if isinstance(answer, Quotient):
        columns = tuple(_listed(column) for column in answer.denominators)
        return Quotient(_listed(answer.numerator), columns)
    if isinstance(answer, Iterator):
        return list(answer)
    return answer


def _failure(what: str, path: str, error: BaseException) -> PolicyError:
    if isinstance(error, DtrdiagError):
        if isinstance(error, PolicyError) and error.path is not None:
            return error
        why = str(error)
    else:
        why = f"{type(error).__name__}: {_said(error)}"
    return PolicyError(f"{what}: {why}", path=path, line=_line(path, error))


def _said(error: BaseException) -> str:
    try:
        return str(error.msg if isinstance(error, SyntaxError) else error)
    except KeyboardInterrupt:
        raise
    except BaseException:
        return "(its message cannot be shown)"


def _line(path: str, error: BaseException) -> int | None:
    """The last line of the file itself that the error passed through."""
    full = os.path.abspath(path)
    if isinstance(error, SyntaxError) and error.filename == full:
        return error.lineno
    trace: TracebackType | None = error.__traceback__
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == full]
    return lines[-1] if lines else None
