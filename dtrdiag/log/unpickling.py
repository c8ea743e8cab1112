"""How is a pickle read that may have been written by anyone? As data alone, and nothing else.

A pickle is a program for a small stack machine, and the usual one can be told to import and call
whatever there is. This machine knows numbers, texts, None, lists, tuples and dicts with texts as
keys. It has no instruction that imports, calls or builds anything: one that wants to is refused by
what it asks for. Nothing is recursive, and what a file may make is limited.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import repeat
from operator import is_
from typing import Any

from dtrdiag.errors import SnapshotError
from dtrdiag.suggestions import quoted

MAX_BYTES = 512 << 20
"""Of a pickle."""
MAX_VALUES = 16_000_000
"""Lists, tuples, dicts and remembered values that a pickle may make, and values on its stack."""
MAX_DEPTH = 1_000
"""Of values within values; a snapshot has fewer than ten levels."""
MAX_INT_BYTES = 16
PROTO = 0x80
PROTOCOLS = range(2, 6)
_CHECK_EVERY = 0xFFFF
_REFUSED = {
    0x63: "GLOBAL", 0x93: "STACK_GLOBAL", 0x52: "REDUCE", 0x62: "BUILD", 0x69: "INST", 0x6F: "OBJ",
    0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4", 0x50: "PERSID",
    0x51: "BINPERSID", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x42: "BINBYTES",
    0x43: "SHORT_BINBYTES", 0x8E: "BINBYTES8", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER", 0x54: "BINSTRING", 0x55: "SHORT_BINSTRING", 0x53: "STRING",
}  # fmt: skip
"""Instructions that make what is no plain data, by name for messages."""


def is_pickle(head: bytes) -> bool:
    """Whether a file that begins so is a pickle of protocol 2 to 5."""
    return len(head) > 1 and head[0] == PROTO and head[1] in PROTOCOLS


def plain_value(content: bytes, path: str) -> Any:
    """The value that a pickle of plain data holds, in time linear in its size.

    Args:
        content: the pickle, protocol 2 to 5.
        path: of the file, for messages.

    Raises:
        SnapshotError: it holds anything but plain data, is damaged or cut, or makes too much.
    """
    if len(content) > MAX_BYTES:
        raise SnapshotError(f"a pickle of more than {MAX_BYTES >> 20} MiB", path=path)
    machine = _Machine(content)
    try:
        return machine.run()
    except _RefusedError as error:
        what = f"{error} at byte {machine.started:,} of the pickle"
        raise SnapshotError(what, path=path) from None
    except (IndexError, KeyError, struct.error, UnicodeDecodeError, AttributeError, TypeError):
        cut = machine.at >= len(content)
        what = "ends in the middle" if cut else f"is damaged at byte {machine.started:,}"
        raise SnapshotError(f"the pickle {what}", path=path) from None


class _RefusedError(Exception):
    """What a pickle asked for is not done."""


class _Machine:
    """The stack machine; `at` is the next byte, `started` that of the instruction at hand."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = self.started = 0
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.made = 0
        # The container that was filled last, and how deep it is: what is nested level by level.
        self.filled: Any = None
        self.depth = 0
        self.table: list[Callable[[], None] | None] = [None] * 256
        for code, action in self._actions().items():
            self.table[code] = action

    def run(self) -> Any:
        content, table, memo, count = self.content, self.table, self.memo, 0
        while True:
            self.started = self.at
            code = content[self.at]
            self.at += 1
            count += 1
            if not count & _CHECK_EVERY and len(self.stack) > MAX_VALUES:
                raise _RefusedError(f"more than {MAX_VALUES:,} values on the stack")
            if code == 0x68:  # every second instruction of a snapshot: a key met before
                self.stack.append(memo[content[self.at]])
                self.at += 1
                continue
            if code == 0x2E:
                return self._stop()
            action = table[code]
            if action is None:
                raise _RefusedError(self._wanted(code))
            action()

    def _stop(self) -> Any:
        if self.at != len(self.content):
            raise _RefusedError(f"{len(self.content) - self.at:,} bytes after the end")
        if len(self.stack) != 1 or self.marks:
            raise IndexError
        return self.stack[0]

    def _wanted(self, code: int) -> str:
        name = _REFUSED.get(code)
        if name is None:
            return f"no instruction of a pickle ({code:#04x})"
        wanted = ""
        if code == 0x63:
            module, _, rest = self.content[self.at : self.at + 200].partition(b"\n")
            parts = [module, rest.partition(b"\n")[0]]
            wanted = quoted(".".join(part.decode("ascii", "replace") for part in parts))
        elif code == 0x93 and len(self.stack) > 1:
            wanted = quoted(".".join(str(part)[:40] for part in self.stack[-2:]))
        what = f"{name} of {wanted}" if wanted else name
        return f"holds more than plain data, refused and not run: {what}"

    def _actions(self) -> dict[int, Callable[[], None]]:
        push = self._push
        return {
            0x80: self._proto,
            0x95: lambda: self._skip(8),
            0x28: self._mark,
            0x4E: lambda: push(None),
            0x88: lambda: push(True),
            0x89: lambda: push(False),
            0x4B: lambda: push(self._take(1)[0]),
            0x4D: lambda: push(self._unpacked("<H", 2)),
            0x4A: lambda: push(self._unpacked("<i", 4)),
            0x47: lambda: push(self._unpacked(">d", 8)),
            0x8A: lambda: self._long(self._take(1)[0]),
            0x8B: lambda: self._long(self._unpacked("<i", 4)),
            0x8C: lambda: self._text(self._take(1)[0]),
            0x58: lambda: self._text(self._unpacked("<I", 4)),
            0x8D: lambda: self._text(self._unpacked("<Q", 8)),
            0x5D: lambda: self._make([]),
            0x7D: lambda: self._make({}),
            0x29: lambda: push(()),
            0x6C: lambda: self._make_of(self._since_mark()),
            0x74: lambda: self._make_of(tuple(self._since_mark())),
            0x64: lambda: self._make_dict(self._since_mark()),
            0x85: lambda: self._tuple(1),
            0x86: lambda: self._tuple(2),
            0x87: lambda: self._tuple(3),
            0x61: lambda: self._extend([self.stack.pop()]),
            0x65: lambda: self._extend(self._since_mark()),
            0x73: lambda: self._update([self.stack.pop(-2), self.stack.pop()]),
            0x75: lambda: self._update(self._since_mark()),
            0x94: lambda: self._remember(len(self.memo)),
            0x71: lambda: self._remember(self._take(1)[0]),
            0x72: lambda: self._remember(self._unpacked("<I", 4)),
            0x68: lambda: push(self.memo[self._take(1)[0]]),  # `run` does it itself
            0x6A: lambda: push(self.memo[self._unpacked("<I", 4)]),
        }

    def _push(self, value: Any) -> None:
        self.stack.append(value)

    def _take(self, size: int) -> bytes:
        piece = self.content[self.at : self.at + size]
        self.at += size
        if len(piece) < size:
            raise IndexError
        return piece

    def _skip(self, size: int) -> None:
        self._take(size)

    def _unpacked(self, form: str, size: int) -> Any:
        return struct.unpack(form, self._take(size))[0]

    def _proto(self) -> None:
        if self._take(1)[0] not in PROTOCOLS:
            raise _RefusedError("another protocol than 2 to 5")

    def _long(self, size: int) -> None:
        if not 0 <= size <= MAX_INT_BYTES:
            raise _RefusedError(f"a number of {size:,} bytes")
        self.stack.append(int.from_bytes(self._take(size), "little", signed=True))

    def _text(self, size: int) -> None:
        self.stack.append(self._take(size).decode("utf-8", "surrogatepass"))

    def _count(self) -> None:
        self.made += 1
        if self.made > MAX_VALUES:
            raise _RefusedError(f"more than {MAX_VALUES:,} values")

    def _make(self, value: Any) -> None:
        self._count()
        self.stack.append(value)

    def _make_of(self, values: list[Any] | tuple[Any, ...]) -> None:
        self._nest(values, values)
        self._make(values)

    def _make_dict(self, items: list[Any]) -> None:
        found = self._dict(items)
        self._nest(found, items)
        self._make(found)

    def _nest(self, target: Any, values: list[Any] | tuple[Any, ...]) -> None:
        """Count levels where a container goes into the next one, and refuse too many."""
        depth = self.depth + 1 if any(map(is_, values, repeat(self.filled))) else 1
        self.depth = max(self.depth, depth) if target is self.filled else depth
        self.filled = target
        if self.depth > MAX_DEPTH:
            raise _RefusedError(f"values within values, more than {MAX_DEPTH:,} levels")

    def _mark(self) -> None:
        self._count()
        if len(self.marks) >= MAX_DEPTH:
            raise _RefusedError(f"values within values, more than {MAX_DEPTH:,} levels")
        self.marks.append(self.stack)
        self.stack = []

    def _since_mark(self) -> list[Any]:
        values, self.stack = self.stack, self.marks.pop()
        return values

    def _tuple(self, size: int) -> None:
        values = tuple(self.stack[-size:])
        if len(values) < size:
            raise IndexError
        del self.stack[-size:]
        self._make_of(values)

    def _extend(self, values: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not list:
            raise _RefusedError("something is appended to what is no list")
        self._nest(target, values)
        target.extend(values)

    def _update(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if type(target) is not dict:
            raise _RefusedError("an item is set in what is no dict")
        found = self._dict(items)
        self._nest(target, items)
        size = len(target) + len(found)
        target.update(found)
        if len(target) < size:
            raise _RefusedError("a key twice in one dict")

    def _dict(self, items: list[Any]) -> dict[str, Any]:
        if len(items) % 2:
            raise IndexError
        keys = items[::2]
        # Texts alone: their hashes cannot be chosen so that many collide.
        if not all(type(key) is str for key in keys):
            raise _RefusedError("a key that is no text")
        found = dict(zip(keys, items[1::2], strict=True))
        if len(found) < len(keys):
            raise _RefusedError("a key twice in one dict")
        return found

    def _remember(self, number: int) -> None:
        self._count()
        self.memo[number] = self.stack[-1]
