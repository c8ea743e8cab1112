"""How are the instructions of a recorded step written down? As the lines of a DTR log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    # Loads torch, which who reads a log may not have.
    from dtrdiag.instrumentation.pytorch.describe import Place

SCHEMA = "dtrdiag.recording/1"


class LogSink:
    """Collects the lines of a DTR log, in the published form.

    Attributes:
        ops: how many operators there are so far, constants included.
    """

    def __init__(self) -> None:
        self.ops = 0
        self._lines: list[bytes] = []
        self._names: list[str] = []
        self._taken: set[str] = set()

    def constant(self, size_bytes: int, label: str) -> int:
        """CONSTANT and MEMORY."""
        self.ops += 1
        tensor, name = self._named(label)
        self._line(INSTRUCTION="CONSTANT", NAME=name)
        self._line(INSTRUCTION="MEMORY", MEMORY=str(size_bytes), NAME=name)
        return tensor

    def call(
        self,
        name: str,
        inputs: Sequence[int],
        cost_ns: int,
        sizes_bytes: Sequence[int],
        aliases: Sequence[int],
        places: Sequence[Place],
        work: Any,
    ) -> Sequence[int]:
        """CALL, and MEMORY and ALIAS for each result."""
        self.ops += 1
        args = [self._names[tensor] for tensor in inputs]
        tensors = [self._named(f"x{len(self._names)}") for _ in sizes_bytes]
        results = [result for _, result in tensors]
        self._line(INSTRUCTION="CALL", NAME=name, ARGS=args, RESULT=results, TIME=str(cost_ns))
        for result, size, alias in zip(results, sizes_bytes, aliases, strict=True):
            self._line(INSTRUCTION="MEMORY", MEMORY=str(size), NAME=result)
            self._line(INSTRUCTION="ALIAS", ALIAS=str(alias), NAME=result)
        return [tensor for tensor, _ in tensors]

    def release(self, tensor: int) -> None:
        """RELEASE."""
        self._line(INSTRUCTION="RELEASE", NAME=self._names[tensor])

    def content(self, metadata: Mapping[str, Any]) -> bytes:
        """The whole log: what was recorded, the mark after which it starts, and its lines."""
        head = {"INSTRUCTION": "ANNOTATE", "ANNOTATION": SCHEMA, "RECORDING": metadata}
        start = {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
        lines = (_dump(head), _dump(start), *self._lines)
        return b"".join(line + b"\n" for line in lines)

    def _named(self, label: str) -> tuple[int, str]:
        """A new tensor under a name that no other has."""
        name, again = label, 1
        while name in self._taken:
            again += 1
            name = f"{label}#{again}"
        self._taken.add(name)
        self._names.append(name)
        return len(self._names) - 1, name

    def _line(self, **fields: Any) -> None:
        self._lines.append(_dump(fields))


def _dump(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def recording_of(preamble: Sequence[str]) -> dict[str, Any] | None:
    """What the first line of a log says of how it was recorded; None where it says nothing."""
    for line in preamble:
        if SCHEMA in line:
            fields = orjson.loads(line)
            if isinstance(fields, dict) and isinstance(fields.get("RECORDING"), dict):
                return dict(fields["RECORDING"])
    return None
