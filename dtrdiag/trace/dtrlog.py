"""How a DTR log, the format of the public traces, is read and written.

A DTR log is JSON Lines, one instruction a line, as published with simrd (Kirisame et al., ICLR
2021, arXiv 2006.09616). Numbers may stand as numbers or as strings. Reading and writing back gives
the same bytes for logs in the published form (keys sorted, no spaces, numbers as strings).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from dtrdiag.files import ARCHIVE_SEPARATOR, read_bytes
from dtrdiag.jsontext import key_twice, parse_json
from dtrdiag.trace.builder import TraceBuilder, shown
from dtrdiag.trace.jsondocs import check_text
from dtrdiag.trace.model import Instruction, Trace

START = "START"
Line = dict[str, Any]


def read_dtr_log(source: str | os.PathLike[str], *, name: str | None = None) -> Trace:
    """Read a DTR log.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`.
        name: short name of the trace; by default that of the file or member.

    Raises:
        InputError: the file cannot be read.
        TraceError: a line is not an instruction or asks for something impossible.
    """
    text = os.fspath(source)
    return parse_dtr_log(read_bytes(text), name=name or short_name(text), path=text)


def parse_dtr_log(content: bytes, *, name: str, path: str = "<memory>") -> Trace:
    """Read a DTR log from its uncompressed bytes; see `read_dtr_log`."""
    check_text(content, path)
    return _Reader(content, TraceBuilder(name, path)).read()


def write_dtr_log(trace: Trace) -> bytes:
    """The trace as a DTR log: keys sorted, no spaces, numbers as strings, a newline at the end."""
    lines = [text.encode() for text in trace.preamble]
    lines.extend(_dump(line) for line in _instructions(trace))
    return b"".join(line + b"\n" for line in lines)


class _Reader:
    """Walks the lines; each instruction handler takes the lines that belong to it."""

    def __init__(self, content: bytes, builder: TraceBuilder) -> None:
        self.builder = builder
        self.digest = hashlib.sha256(content).hexdigest()
        self.lines = content.splitlines()
        self.position = 0
        self.handlers: dict[str, Callable[[Line], None]] = {
            "CONSTANT": self._constant,
            "CALL": self._call,
            "MUTATE": self._mutate,
            "COPY": lambda line: builder.copy(self._text(line, "DST"), self._text(line, "SRC")),
            "COPY_FROM": lambda line: builder.copy_from(
                self._text(line, "DST"), self._text(line, "SRC")
            ),
            "RELEASE": lambda line: builder.release(self._text(line, "NAME")),
            "ANNOTATE": lambda line: builder.annotate(self._text(line, "ANNOTATION")),
        }

    def read(self) -> Trace:
        preamble = self._preamble()
        while self.position < len(self.lines):
            line = self._next()
            kind = line.get("INSTRUCTION")
            handler = self.handlers.get(kind) if isinstance(kind, str) else None
            if handler is None:
                if kind in ("MEMORY", "ALIAS"):
                    raise self.builder.error(f"{kind} without a CALL or CONSTANT before it")
                raise self.builder.error(f"unknown instruction {shown(kind)}")
            handler(line)
        self.builder.line = len(self.lines)
        return self.builder.build(self.digest, preamble)

    def _preamble(self) -> list[str]:
        for index, raw in enumerate(self.lines):
            # The substring test keeps this one pass cheap; the parse makes it certain.
            if b"ANNOTATE" in raw and b"START" in raw:
                self.position = index
                line = self._next()
                if line.get("INSTRUCTION") == "ANNOTATE" and line.get("ANNOTATION") == START:
                    return [text.decode("utf-8", "replace") for text in self.lines[: index + 1]]
        self.position = 0
        return []

    def _next(self) -> Line:
        self.builder.line = self.position + 1
        raw = self.lines[self.position]
        self.position += 1
        try:
            line = orjson.loads(raw)
        except orjson.JSONDecodeError as error:
            last = " (the log ends in the middle of a line)" * (self.position == len(self.lines))
            raise self.builder.error(f"not JSON: {error}{last}") from None
        if not isinstance(line, dict):
            raise self.builder.error("not a JSON object")
        # Most lines have as many colons as keys, and none of their keys can stand twice.
        if raw.count(b":") != len(line) and (twice := key_twice(raw, line)) is not None:
            raise self.builder.error(f"{shown(twice[1])} stands twice in one object")
        return line

    def _follower(self, kind: str, owner: str, name: str) -> Line:
        if self.position >= len(self.lines):
            raise self.builder.error(f"the log ends before the {kind} line of {shown(name)}")
        line = self._next()
        if line.get("INSTRUCTION") != kind:
            raise self.builder.error(
                f"expected the {kind} line of {shown(name)} after {owner}, "
                f"found {shown(line.get('INSTRUCTION'))}"
            )
        if line.get("NAME") != name:
            raise self.builder.error(
                f"{kind} names {shown(line.get('NAME'))} instead of {shown(name)}"
            )
        return line

    def _constant(self, line: Line) -> None:
        start = self.builder.line
        name = self._text(line, "NAME")
        memory = self._memory("CONSTANT", name)
        self.builder.line = start
        self.builder.constant(name, memory)

    def _call(self, line: Line) -> None:
        start = self.builder.line
        results, args = self._texts(line, "RESULT"), self._texts(line, "ARGS")
        name, cost_ns = self._text(line, "NAME"), self._number(line, "TIME")
        memory, aliases = [], []
        for result in results:
            memory.append(self._memory("CALL", result))
            aliases.append(self._alias(result, len(args)))
        self.builder.line = start
        self.builder.call(results, name, args, cost_ns, memory, aliases)

    # The builder checks these numbers too; here the error points at their own line.
    def _memory(self, owner: str, name: str) -> int:
        memory = self._number(self._follower("MEMORY", owner, name), "MEMORY")
        self.builder.check_memory(memory)
        return memory

    def _alias(self, name: str, arguments: int) -> int:
        alias = self._number(self._follower("ALIAS", "MEMORY", name), "ALIAS")
        self.builder.check_alias(name, alias, arguments)
        return alias

    def _mutate(self, line: Line) -> None:
        indices = self._list(line, "MUTATE")
        self.builder.mutate(
            self._text(line, "NAME"),
            self._texts(line, "ARGS"),
            [self._integer("MUTATE", index) for index in indices],
            self._number(line, "TIME"),
        )

    def _value(self, line: Line, field: str) -> Any:
        try:
            return line[field]
        except KeyError:
            raise self.builder.error(f"{line['INSTRUCTION']} has no {field}") from None

    def _text(self, line: Line, field: str) -> str:
        value = self._value(line, field)
        if not isinstance(value, str):
            raise self.builder.error(f"{field} is not a string: {shown(value)}")
        return value

    def _list(self, line: Line, field: str) -> list[Any]:
        value = self._value(line, field)
        if not isinstance(value, list):
            raise self.builder.error(f"{field} is not a list: {shown(value)}")
        return value

    def _texts(self, line: Line, field: str) -> list[str]:
        values = self._list(line, field)
        if not all(isinstance(value, str) for value in values):
            raise self.builder.error(f"{field} has something that is not a string: {shown(values)}")
        return values

    def _number(self, line: Line, field: str) -> int:
        return self._integer(field, self._value(line, field))

    def _integer(self, field: str, value: object) -> int:
        if isinstance(value, str) and value.removeprefix("-").isascii():
            if value.removeprefix("-").isdecimal() and len(value) <= 40:
                return int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            return value
        elif isinstance(value, float) and value.is_integer():
            if abs(value) >= 1 << 53:
                return self._as_given(field, int(value))
            return int(value)
        raise self.builder.error(f"{field} is not an integer: {_quoted(value)}")

    def _as_given(self, field: str, value: int) -> int:
        """A number of the line at hand that was too long for 64 bits, with all its digits."""
        given = parse_json(self.lines[self.builder.line - 1]).get(field)
        return given if type(given) is int else value


def _quoted(value: object) -> str:
    return shown(value if isinstance(value, str) else shown(value))


def _instructions(trace: Trace) -> Iterator[Line]:
    columns = (trace.instruction_kind, trace.instruction_operand, trace.instruction_source)
    for kind, operand, source in zip(*(column.tolist() for column in columns), strict=True):
        if kind == Instruction.CONSTANT:
            tensor = int(trace.output_start[operand])
            name = trace.tensor_name[tensor]
            yield {"INSTRUCTION": "CONSTANT", "NAME": name}
            yield _memory_line(trace, tensor)
        elif kind == Instruction.CALL:
            yield from _call_lines(trace, operand)
        elif kind == Instruction.MUTATE:
            yield {
                "ARGS": _argument_names(trace, operand),
                "INSTRUCTION": "MUTATE",
                "MUTATE": trace.mutate_index[
                    trace.mutate_start[operand] : trace.mutate_start[operand + 1]
                ].tolist(),
                "NAME": trace.op_name[operand],
                "TIME": str(trace.op_cost_ns[operand]),
            }
        elif kind == Instruction.ANNOTATE:
            yield {"ANNOTATION": trace.names[operand], "INSTRUCTION": "ANNOTATE"}
        elif kind == Instruction.RELEASE:
            yield {"INSTRUCTION": "RELEASE", "NAME": trace.names[operand]}
        else:
            yield {
                "DST": trace.names[operand],
                "INSTRUCTION": Instruction(kind).name,
                "SRC": trace.names[source],
            }


def _call_lines(trace: Trace, op: int) -> Iterator[Line]:
    outputs = trace.outputs_of(op)
    yield {
        "ARGS": _argument_names(trace, op),
        "INSTRUCTION": "CALL",
        "NAME": trace.op_name[op],
        "RESULT": [trace.tensor_name[tensor] for tensor in outputs],
        "TIME": str(trace.op_cost_ns[op]),
    }
    for tensor in outputs:
        yield _memory_line(trace, tensor)
        yield {
            "ALIAS": str(trace.tensor_alias[tensor]),
            "INSTRUCTION": "ALIAS",
            "NAME": trace.tensor_name[tensor],
        }


def _memory_line(trace: Trace, tensor: int) -> Line:
    return {
        "INSTRUCTION": "MEMORY",
        "MEMORY": str(trace.tensor_memory_bytes[tensor]),
        "NAME": trace.tensor_name[tensor],
    }


def _argument_names(trace: Trace, op: int) -> list[str]:
    row = trace.input_name[trace.input_start[op] : trace.input_start[op + 1]]
    return [trace.names[index] for index in row.tolist()]


def _dump(line: Line) -> bytes:
    return orjson.dumps(line, option=orjson.OPT_SORT_KEYS)


def short_name(source: str) -> str:
    """What a trace is called that was read from a file or member: without folder and endings."""
    path = source.rpartition(ARCHIVE_SEPARATOR)[2]
    name = os.path.basename(path)
    for suffix in (".gz", ".zst", ".jsonl", ".json", ".log"):
        name = name.removesuffix(suffix)
    return name or source
