"""How do slices, instants and counters become a file that ui.perfetto.dev opens?

A trace of Perfetto is a sequence of packets. Each is written when it is made, so a long one takes
no more memory than a short one, and the same calls give the same bytes. Texts that come again are
written once and named by a number after that (*interned*).

The messages are those of the package `perfetto`, an optional extra: it is loaded when a file is
begun, never before.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from dtrdiag.errors import OutputError, UsageError

Argument = bool | int | float | str
"""What a slice or an instant may say about itself."""
MOST = (1 << 63) - 1
"""The largest whole number that a packet holds."""

_MISSING = "a timeline for Perfetto needs its messages: pip install 'dtrdiag[perfetto]'"
_MESSAGES = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
_SEQUENCE = 1
# Of TracePacket.SequenceFlags.
_BEGINS, _CONTINUES = 1, 2
_PACKET_TAG = b"\x0a"
_FLUSH_BYTES = 1 << 20


def load_perfetto() -> Any:
    """The module with the messages of a trace.

    Raises:
        UsageError: the package is not installed; says what to install.
    """
    try:
        return importlib.import_module(_MESSAGES)
    except ImportError:
        raise UsageError(_MISSING) from None


class TrackEventWriter:
    """Writes one trace. Times are in nanoseconds and never go back.

    Args:
        stream: where the packets go; it is neither closed nor flushed.

    Raises:
        UsageError: the package `perfetto` is not installed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        messages = load_perfetto()
        self._stream = stream
        self._packet_type = messages.TracePacket
        self._packet = messages.TracePacket()
        self._types = messages.TrackEvent
        self._size_unit = messages.CounterDescriptor.UNIT_SIZE_BYTES
        self._explicit = messages.TrackDescriptor.EXPLICIT
        self._tracks = 0
        self._flags = _BEGINS
        self._names: dict[str, int] = {}
        self._categories: dict[str, int] = {}
        self._arguments: dict[str, int] = {}
        self._held: list[bytes] = []
        self._held_bytes = 0
        self.packets = 0

    def group(self, name: str, description: str) -> int:
        """A track that holds others, in the order in which they are made."""
        packet = self._new()
        track = packet.track_descriptor
        track.uuid, track.name, track.description = self._next(), legal(name), legal(description)
        track.child_ordering = self._explicit
        self._write()
        return self._tracks

    def track(
        self,
        name: str,
        parent: int,
        description: str,
        *,
        sizes: bool = False,
        place: int | None = None,
    ) -> int:
        """A track for slices and instants.

        Args:
            name: what is written before it.
            parent: the group that it belongs to.
            description: what is told of it.
            sizes: it is a counter of bytes instead.
            place: the track that it follows; None: all that are there.
        """
        packet = self._new()
        track = packet.track_descriptor
        track.uuid, track.name, track.parent_uuid = self._next(), legal(name), parent
        track.description = legal(description)
        track.sibling_order_rank = self._tracks if place is None else place
        if sizes:
            track.counter.unit = self._size_unit
        self._write()
        return self._tracks

    def begin(
        self,
        track: int,
        time_ns: int,
        name: str,
        category: str,
        arguments: Mapping[str, Argument | None],
        flow: int | None = None,
    ) -> None:
        """Begin a slice inside the one that is open on the track, if one is.

        Args:
            track: as `track` made it.
            time_ns: when it begins.
            name: what is written on it.
            category: of slices that can be shown and hidden together.
            arguments: what it says about itself; None: nothing.
            flow: the number of an arrow that leads from here to the slice that names it at its end.

        Raises:
            OutputError: a number does not fit into 64 bits.
        """
        event = self._event(track, time_ns, self._types.TYPE_SLICE_BEGIN, arguments)
        self._named(event, name, category)
        if flow is not None:
            event.flow_ids.append(flow)
        self._write()

    def end(
        self,
        track: int,
        time_ns: int,
        arguments: Mapping[str, Argument | None],
        flows: Iterable[int] = (),
    ) -> None:
        """End the slice that was begun last on the track; `flows` are arrows that lead to it.

        Raises:
            OutputError: a number does not fit into 64 bits.
        """
        event = self._event(track, time_ns, self._types.TYPE_SLICE_END, arguments)
        event.terminating_flow_ids.extend(flows)
        self._write()

    def instant(
        self,
        track: int,
        time_ns: int,
        name: str,
        category: str,
        arguments: Mapping[str, Argument | None],
    ) -> None:
        """Something that takes no time; errors as `begin`."""
        event = self._event(track, time_ns, self._types.TYPE_INSTANT, arguments)
        self._named(event, name, category)
        self._write()

    def counter(self, track: int, time_ns: int, value: int) -> None:
        """The value of a counter from now on; errors as `begin`."""
        event = self._event(track, time_ns, self._types.TYPE_COUNTER, {})
        event.counter_value = _fitting(value)
        self._write()

    def flush(self) -> None:
        """Hand what is held back to the stream."""
        self._stream.write(b"".join(self._held))
        self._held.clear()
        self._held_bytes = 0

    def _next(self) -> int:
        self._tracks += 1
        return self._tracks

    def _new(self) -> Any:
        # A new one each time: one that is cleared keeps the memory of all that it ever held.
        packet = self._packet = self._packet_type(
            trusted_packet_sequence_id=_SEQUENCE, sequence_flags=self._flags
        )
        self._flags = _CONTINUES
        return packet

    def _event(
        self, track: int, time_ns: int, kind: int, arguments: Mapping[str, Argument | None]
    ) -> Any:
        packet = self._new()
        packet.timestamp = _fitting(time_ns)
        event = packet.track_event
        event.type, event.track_uuid = kind, track
        add = event.debug_annotations.add
        for name, value in arguments.items():
            if value is None:
                continue
            number = self._interned(self._arguments, "debug_annotation_names", name)
            # By its very type: a bool is an int, too.
            of_type = type(value)
            if of_type is bool:
                add(name_iid=number, bool_value=value)
            elif of_type is str:
                add(name_iid=number, string_value=legal(str(value)))
            elif of_type is float:
                add(name_iid=number, double_value=value)
            else:
                add(name_iid=number, int_value=_fitting(int(value)))
        return event

    def _named(self, event: Any, name: str, category: str) -> None:
        event.name_iid = self._interned(self._names, "event_names", legal(name))
        event.category_iids.append(self._interned(self._categories, "event_categories", category))

    def _interned(self, known: dict[str, int], kind: str, text: str) -> int:
        number = known.get(text)
        if number is None:
            number = known[text] = len(known) + 1
            entry = getattr(self._packet.interned_data, kind).add()
            entry.iid, entry.name = number, text
        return number

    def _write(self) -> None:
        content = self._packet.SerializeToString()
        self._held.append(_PACKET_TAG + _varint(len(content)) + content)
        self._held_bytes += len(content)
        self.packets += 1
        if self._held_bytes >= _FLUSH_BYTES:
            self.flush()


def legal(text: str) -> str:
    """The text as UTF-8 can hold it: halves of surrogate pairs become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _fitting(value: int) -> int:
    if not -MOST <= value <= MOST:
        raise OutputError(f"a timeline holds numbers up to 2**63, not {value}")
    return value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
