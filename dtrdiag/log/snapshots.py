"""What does a memory snapshot of PyTorch's caching allocator hold?

`torch.cuda.memory._dump_snapshot` writes a pickle of plain data; the same as JSON is read, too. It
has what the allocator did since recording began, per device, and what it held when the snapshot was
taken. A snapshot says nothing of operators or dependencies, so it cannot be simulated; it can be
looked at (`dtrdiag report`) and laid beside the log of a run.
"""

from __future__ import annotations

import re
from typing import Any

import attrs
import orjson

from dtrdiag.errors import DtrdiagError, InputError, SnapshotError
from dtrdiag.files import open_source, read_bytes
from dtrdiag.jsontext import encoding_problem, key_twice, parse_json
from dtrdiag.log.unpickling import is_pickle, plain_value
from dtrdiag.suggestions import no_such, quoted

ALLOC, FREE_REQUESTED, FREE_COMPLETED = "alloc", "free_requested", "free_completed"
SEGMENT_ALLOC, SEGMENT_FREE = "segment_alloc", "segment_free"
SEGMENT_MAP, SEGMENT_UNMAP = "segment_map", "segment_unmap"
OOM, SNAPSHOT = "oom", "snapshot"
ACTIONS = (
    ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP,
    OOM, SNAPSHOT,
)  # fmt: skip
"""What the allocator does."""
ACTIVE, AWAITING, INACTIVE = "active_allocated", "active_awaiting_free", "inactive"
STATES = (ACTIVE, AWAITING, "active_pending_free", INACTIVE)
"""Of blocks; the third is what older versions call the second."""
MAX_EVENTS = 10_000_000
MAX_FRAMES = 1_000
MAX_SIZE = 1 << 60
MAX_SUM = 1 << 62
"""Of all sizes together: no count of bytes overflows."""
HEAD_BYTES = 4096
_SUMMED = ("size", "total_size", "requested_size")
_JSON = re.compile(
    rb'\A\s*\{\s*"(segments|device_traces|allocator_settings|external_annotations)"\s*:'
)


@attrs.frozen(slots=True)
class CallFrame:
    """Where something was called from; `line` is 1-based, 0 where it is not known."""

    file: str
    line: int
    function: str


@attrs.frozen(slots=True)
class AllocatorEvent:
    """One thing that the allocator did.

    Attributes:
        action: one of `ACTIONS`, or another that a later PyTorch may have.
        address: of the allocation or segment; None for `oom`.
        size_bytes: as asked for; of an `oom`, what could not be had.
        frames: where from, innermost first; empty where it was not recorded.
        time_us: when; None where it was not recorded.
        device_free_bytes: of an `oom`, what the device had left; None otherwise.
    """

    action: str
    address: int | None
    size_bytes: int
    frames: tuple[CallFrame, ...]
    time_us: int | None
    device_free_bytes: int | None


@attrs.frozen(slots=True)
class Block:
    """A piece of a segment when the snapshot was taken; `requested_bytes` as it was asked for."""

    address: int
    size_bytes: int
    requested_bytes: int
    state: str
    frames: tuple[CallFrame, ...]


@attrs.frozen(slots=True)
class Segment:
    """Memory that the allocator had from the device when the snapshot was taken."""

    address: int
    size_bytes: int
    blocks: tuple[Block, ...]


@attrs.frozen(slots=True)
class DeviceHistory:
    """One device: what was done, in order, and what there was in the end."""

    device: int
    events: tuple[AllocatorEvent, ...] = attrs.field(repr=False)
    segments: tuple[Segment, ...] = attrs.field(repr=False)


@attrs.frozen(slots=True)
class MemorySnapshot:
    """A snapshot; of its devices those that did or held anything."""

    path: str
    devices: tuple[DeviceHistory, ...]


def is_snapshot(source: str) -> bool:
    """Whether a file begins like a memory snapshot, as a pickle or as JSON."""
    try:
        with open_source(source) as (stream, _):
            head = stream.read(HEAD_BYTES)
    except (DtrdiagError, OSError, EOFError):
        # Whatever is wrong with the file, the reader of traces will say it better.
        return False
    return is_pickle(head) or _JSON.match(head) is not None


def read_snapshot(source: str) -> MemorySnapshot:
    """Read a memory snapshot; nothing in the file is executed.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`.

    Raises:
        InputError: the file cannot be read.
        SnapshotError: it is no snapshot, is damaged, or is a pickle of more than plain data.
    """
    content = read_bytes(source)
    if is_pickle(content[:2]):
        value = plain_value(content, source)
    else:
        problem = encoding_problem(content)
        if problem is not None:
            raise SnapshotError(problem, path=source)
        try:
            value = parse_json(content)
        except orjson.JSONDecodeError as error:
            raise SnapshotError(
                f"neither a pickle nor JSON: {error.msg}", path=source, line=error.lineno
            ) from None
        twice = key_twice(content, value)
        if twice is not None:
            raise SnapshotError(f"{quoted(twice[1])} stands twice in one object", path=source)
    return _Reader(source).snapshot(value)


class _Reader:
    """Makes records of plain values; each is looked at to a fixed depth, and counted."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._count = 0
        self._sum_bytes = 0
        self._frames: dict[tuple[str, int, str], CallFrame] = {}
        self._stacks: dict[int, tuple[CallFrame, ...]] = {}

    def snapshot(self, value: Any) -> MemorySnapshot:
        if not isinstance(value, dict) or not {"segments", "device_traces"} & value.keys():
            raise self._error("the file", "no memory snapshot: neither segments nor device_traces")
        self._count_all(value)
        segments: dict[int, list[Segment]] = {}
        for at, fields in enumerate(self._list(value.get("segments", []), "segments")):
            where = f"segment {at}"
            device = self._number(self._dict(fields, where), "device", where, 0)
            segments.setdefault(device, []).append(self._segment(fields, where))
        traces = self._list(value.get("device_traces", []), "device_traces")
        devices = []
        for device in sorted({*range(len(traces)), *segments}):
            events = traces[device] if device < len(traces) else []
            history = self._events(events, device)
            if history or device in segments:
                held = tuple(segments.get(device, ()))
                devices.append(DeviceHistory(device, history, held))
        if not devices:
            raise self._error("the file", "a memory snapshot of no device at all")
        return MemorySnapshot(self._path, tuple(devices))

    def _count_all(self, value: dict[str, Any]) -> None:
        """Refuse what is too much before any of it is read.

        A pickle can have one list in many places; none that is read twice is that of an allocator.
        """
        parts = self._list(value.get("segments", []), "segments")
        traces = self._list(value.get("device_traces", []), "device_traces")
        lists = {
            "segments": parts,
            "device_traces": traces,
            **{f"device_traces[{at}]": each for at, each in enumerate(traces)},
            **{
                f"segment {at}, blocks": part.get("blocks")
                for at, part in enumerate(parts)
                if isinstance(part, dict)
            },
        }
        total, seen = 0, dict[int, str]()
        for where, each in lists.items():
            if not isinstance(each, list | tuple) or not each:
                continue
            total += len(each)
            if total > MAX_EVENTS:
                raise self._error(where, f"more than {MAX_EVENTS:,} events, segments and blocks")
            if id(each) in seen:
                raise self._error(where, f"the same list as {seen[id(each)]}")
            seen[id(each)] = where

    def _events(self, values: Any, device: int) -> tuple[AllocatorEvent, ...]:
        found = []
        for at, fields in enumerate(self._list(values, f"device_traces[{device}]")):
            where = f"event {at} of device {device}"
            self._counted(where)
            found.append(self._event(self._dict(fields, where), where))
        return tuple(found)

    def _event(self, fields: dict[str, Any], where: str) -> AllocatorEvent:
        action = fields.get("action")
        if not isinstance(action, str):
            raise self._error(where, f"no action: {_short(action)}")
        address: int | None = None
        if action != OOM and action in ACTIONS:
            address = self._number(fields, "addr", where)
        return AllocatorEvent(
            action,
            address,
            self._number(fields, "size", where, 0 if action not in ACTIONS else None),
            self._stack(fields.get("frames"), where),
            fields["time_us"] if type(fields.get("time_us")) is int else None,
            self._number(fields, "device_free", where, 0) if action == OOM else None,
        )

    def _segment(self, fields: dict[str, Any], where: str) -> Segment:
        address = self._number(fields, "address", where)
        size_bytes = self._number(fields, "total_size", where)
        blocks, at = [], address
        for number, block in enumerate(self._list(fields.get("blocks", []), f"{where}, blocks")):
            inner = f"{where}, block {number}"
            self._counted(inner)
            found = self._block(self._dict(block, inner), inner, at)
            at = found.address + found.size_bytes
            if at > address + size_bytes:
                raise self._error(
                    inner,
                    f"{found.size_bytes} bytes at {found.address} end outside its segment of "
                    f"{size_bytes} bytes at {address}",
                )
            blocks.append(found)
        return Segment(address, size_bytes, tuple(blocks))

    def _block(self, fields: dict[str, Any], where: str, least: int) -> Block:
        """A block; `least` is where its segment, or the block before it, lets it begin."""
        size = self._number(fields, "size", where)
        address = self._number(fields, "address", where, least)
        requested = self._number(fields, "requested_size", where, size)
        state = fields.get("state")
        if not isinstance(state, str):
            raise self._error(where, f"no state: {_short(state)}")
        if state not in STATES:
            raise self._error(where, no_such("state", state, STATES))
        if address < least:
            raise self._error(
                where, f"begins at {address}, before {least}: outside its segment, or in another"
            )
        if state == ACTIVE and requested > size:
            raise self._error(where, f"{requested} bytes were asked for, and it has {size}")
        return Block(address, size, requested, state, self._stack(fields.get("frames"), where))

    def _stack(self, value: Any, where: str) -> tuple[CallFrame, ...]:
        if value is None:
            return ()
        # Events from one place have one list, and a pickle keeps it once.
        if id(value) in self._stacks:
            return self._stacks[id(value)]
        frames = []
        for fields in self._list(value, f"{where}, frames")[:MAX_FRAMES]:
            inner = self._dict(fields, f"{where}, a frame")
            texts = inner.get("filename", "?"), inner.get("name", "?")
            line = inner.get("line", 0)
            if not all(isinstance(text, str) for text in texts) or type(line) is not int:
                raise self._error(where, f"a frame is no file, line and name: {_short(inner)}")
            key = (texts[0], line, texts[1])
            if key not in self._frames:
                self._counted(where)
                self._frames[key] = CallFrame(*key)
            frames.append(self._frames[key])
        return self._stacks.setdefault(id(value), tuple(frames))

    def _number(
        self, fields: dict[str, Any], name: str, where: str, default: int | None = None
    ) -> int:
        value = fields.get(name, default)
        if type(value) is not int or value < 0:
            raise self._error(where, f"{name} is no size or address: {_short(value)}")
        if value > MAX_SIZE and name not in ("addr", "address"):
            raise self._error(where, f"{name} is absurdly large: {_short(value)}")
        if name in _SUMMED:
            self._sum_bytes += value
            if self._sum_bytes > MAX_SUM:
                raise self._error(where, f"all sizes up to {name} add up to more than 4 EiB")
        return value

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise self._error(where, f"not a list: {_short(value)}")
        return value  # type: ignore[return-value]

    def _dict(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._error(where, f"not a dict: {_short(value)}")
        return value

    def _counted(self, where: str) -> None:
        self._count += 1
        if self._count > MAX_EVENTS:
            raise self._error(where, f"more than {MAX_EVENTS:,} events, blocks and frames")

    def _error(self, where: str, what: str) -> InputError:
        return SnapshotError(f"{where}: {what}", path=self._path)


def _short(value: object) -> str:
    """A value for a message, without walking into it: containers may hold themselves."""
    if isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return quoted(value)
