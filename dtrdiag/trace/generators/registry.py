"""Which generators exist, and the trace of one at a given depth, width and batch."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.suggestions import no_such
from dtrdiag.trace.generators.recorder import Recorder
from dtrdiag.trace.model import Trace

Write = Callable[[Recorder, int, int, int], None]
"""Writes one training step for (recorder, depth, width, batch)."""

MAX_WIDTH = 1 << 20
MAX_BATCH = 1 << 20


@attrs.frozen(slots=True)
class Generator:
    """A registered generator."""

    name: str
    write: Write = attrs.field(repr=False)
    description: str
    """What is generated, in one line."""
    max_depth: int


GENERATORS: dict[str, Generator] = {}
"""Registered generators by name, in order of registration."""


def generator(name: str, *, max_depth: int = 1 << 16) -> Callable[[Write], Write]:
    """Register a function that writes a network; its docstring's first line describes it.

    Raises:
        UsageError: the name is taken.
    """

    def register(write: Write) -> Write:
        if name in GENERATORS:
            raise UsageError(f"generator {name!r} is registered a second time")
        description = (write.__doc__ or "").strip().partition("\n")[0]
        GENERATORS[name] = Generator(name, write, description, max_depth)
        return write

    return register


def generate(name: str, *, depth: int, width: int, batch: int, label: str | None = None) -> Trace:
    """A generated trace; the same arguments give the same bytes everywhere.

    Args:
        name: a key of `GENERATORS`.
        depth: layers, blocks, time steps or levels, as the generator documents.
        width: features or channels.
        batch: examples per step.
        label: short name of the trace; by default NAME-DEPTH-WIDTH-BATCH.

    Raises:
        UsageError: unknown name, or a parameter out of range.
        TraceError: the sizes or costs would not fit the trace's integers.
    """
    try:
        entry = GENERATORS[name]
    except KeyError:
        raise UsageError(no_such("generator", name, GENERATORS)) from None
    limits = {"depth": entry.max_depth, "width": MAX_WIDTH, "batch": MAX_BATCH}
    for parameter, value in {"depth": depth, "width": width, "batch": batch}.items():
        if not 1 <= value <= limits[parameter]:
            raise UsageError(
                f"{parameter} {value} of {name!r} out of range: 1 to {limits[parameter]}"
            )
    recorder = Recorder()
    entry.write(recorder, depth, width, batch)
    short = label or f"{name}-{depth}-{width}-{batch}"
    return recorder.finish(short, f"<{name} depth={depth} width={width} batch={batch}>")
