"""How long did each call take, by the profiler's trace that was taken with an execution trace?

The profiler's JSON (Kineto, for chrome://tracing and Perfetto) numbers calls as the execution trace
does. On a CPU a call takes as long as its event. Where there are events of a device, an operator
takes what they sum up to that it, or a call within it, has launched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from dtrdiag.errors import TraceError
from dtrdiag.files import read_bytes
from dtrdiag.trace.builder import shown
from dtrdiag.trace.chakranodes import Node, walk
from dtrdiag.trace.jsondocs import Place, parse_document

_CPU = "cpu_op"
_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
_RF_ID, _EXTERNAL_ID = "Record function id", "External id"


@attrs.frozen
class Durations:
    """Durations in nanoseconds.

    Attributes:
        path: of the file, for messages.
        calls: name and duration by the number of the call.
        device_ns: what devices did, by the number of the call; empty: there is no device.
    """

    path: str
    calls: dict[int, tuple[str, int]]
    device_ns: dict[int, int]

    def costs_ns(self, nodes: Iterable[Node]) -> dict[int, int]:
        """The cost of each operator, by the id of its node.

        Raises:
            TraceError: one has no duration, or is another in this file.
        """
        costs, missing, wanted = {}, [], list(nodes)
        for node in wanted:
            found = None if node.rf_id is None else self.calls.get(node.rf_id)
            if found is None:
                missing.append(node)
                continue
            name = found[0]
            if name != node.name:
                raise TraceError(
                    f"call {node.rf_id} is {shown(name)} here, and {shown(node.name)} in the "
                    "execution trace: they are not of one run",
                    path=self.path,
                )
            inner = sum(self._duration_ns(child) for child in node.beside)
            costs[node.id] = max(self._duration_ns(node) - inner, 0)
        if missing:
            first = missing[0]
            raise TraceError(
                f"no duration for {len(missing)} of {len(wanted)} operators, the first is node "
                f"{first.id} ({shown(first.name)}): is it of the same run?",
                path=self.path,
            )
        return costs

    def _duration_ns(self, node: Node) -> int:
        if not self.device_ns:
            return self.calls.get(node.rf_id or 0, ("", 0))[1]
        ids = (each.rf_id for each in walk([node]) if each.rf_id is not None)
        return sum(self.device_ns.get(number, 0) for number in ids)


def read_durations(source: str) -> Durations:
    """Read the profiler's trace, as `export_chrome_trace` writes it.

    Raises:
        InputError: the file cannot be read.
        TraceError: it is no such trace.
    """
    document = Place(parse_document(read_bytes(source), source), source)
    calls: dict[int, tuple[str, int]] = {}
    device_ns: dict[int, int] = {}
    for at, event in enumerate(document.items("traceEvents")):
        place = Place(event, source, f"event {at}")
        if not isinstance(event, dict):
            raise place.error(f"not an object: {shown(event)}")
        kind, arguments = event.get("cat"), event.get("args")
        if event.get("ph") != "X" or not isinstance(arguments, dict):
            continue
        if kind == _CPU and isinstance(number := arguments.get(_RF_ID), int):
            calls[number] = (place.text("name"), _nanoseconds(place, event))
        elif kind in _DEVICE and isinstance(number := arguments.get(_EXTERNAL_ID), int):
            device_ns[number] = device_ns.get(number, 0) + _nanoseconds(place, event)
    if not calls:
        raise document.error(f"no operator in it has a {_RF_ID!r}: not the profiler's trace")
    return Durations(source, calls, device_ns)


def _nanoseconds(place: Place, event: dict[str, Any]) -> int:
    value = event.get("dur")
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e12:
        raise place.error(f"dur is no number of microseconds: {shown(value)}")
    return round(value * 1000)
