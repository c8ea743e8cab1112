"""What tests share: random traces, and where the public ones are, if this machine has them."""

import gc
import math
import os
import shutil
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from dtrdiag.analyses import BudgetMap
from dtrdiag.caching import cache_dir
from dtrdiag.errors import TraceError
from dtrdiag.events import EVENT_TYPES, SCHEMA
from dtrdiag.events.fields import FIELDS
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, native, simulate
from dtrdiag.trace import TraceBuilder
from dtrdiag.trace.catalog import resolve
from dtrdiag.trace.public import ARCHIVE_NAME

# Tests say nothing of time: on a busy machine every example may take long.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


def pytest_configure(config):
    """A run that was told to have the compiled engine does not pass without it."""
    if os.environ.get("DTRDIAG_NATIVE") == "1" and not native.available():
        raise pytest.UsageError("DTRDIAG_NATIVE=1, but the native engine is not built here")


def pytest_collection_finish(session):
    """Modules stay for good: collections of garbage, of which recordings make many, skip them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def native_engine():
    """The compiled module; the test is skipped where it is not built."""
    if not native.available():
        pytest.skip("the native engine is not built in this installation")
    return native._native


@pytest.fixture(scope="session")
def traces_archive() -> Path:
    """The archive of public DTR logs, which is not part of the repository.

    ``DTRDIAG_TRACES`` names the archive or its folder; else the user's cache may have it. Without
    either the test is skipped. A variable that names nothing is an error, so that a mistake does
    not pass for a green run.
    """
    named = os.environ.get("DTRDIAG_TRACES")
    path = Path(named) if named else cache_dir()
    archive = path / ARCHIVE_NAME if path.is_dir() else path
    if not archive.is_file():
        if named:
            pytest.fail(f"DTRDIAG_TRACES={named}: there is no {ARCHIVE_NAME}")
        pytest.skip("no public traces: run `dtrdiag traces fetch`, or set DTRDIAG_TRACES")
    return archive


BROWSER_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright; the test is skipped where there is none.

    With ``DTRDIAG_BROWSER=1`` it fails instead. For a module and no longer: playwright's event loop
    would be in the way of tests that run one of their own.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("DTRDIAG_BROWSER") == "1":
            pytest.fail("DTRDIAG_BROWSER=1, but there is no chromium")
        pytest.skip("no chromium to open pages with")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=BROWSER_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="session")
def map_between():
    """Makes the exact map of a known trace under dtr, between two budgets in bytes."""

    def made(name, low, high):
        trace = resolve(name)
        config = RunConfig("dtr", peak_bytes=baseline_peak_bytes(trace))
        ends, at = [], low
        while at <= high:
            result = simulate(trace, attrs.evolve(config, budget_bytes=at))
            ends.append(result.end)
            at = result.end.interval_hi_bytes
        return BudgetMap(result.header, tuple(ends), low, high)

    return made


SIZES = (0, 0, 1, 7, 16, 16, 1 << 45)
COSTS = (0, 0, 1, 5, 1 << 45)
KINDS = ("call",) * 5 + ("mutate", "copy", "copy_from", "release")


class Tape:
    """Choices read off bytes, by and by; zero, the first of all choices, after the end.

    Hypothesis draws all bytes at once, far faster than each choice by itself, and makes them
    smaller where a test fails.
    """

    def __init__(self, content):
        self.content = iter(content)

    def below(self, count):
        return next(self.content, 0) % count

    def one(self, items):
        return items[self.below(len(items))]

    def some(self, items, least, most):
        return [self.one(items) for _ in range(least + self.below(most - least + 1))]


@st.composite
def traces(draw, longest=30):
    """Small traces with all that instructions can do; released names are not used again.

    In half of them what has an alias has no other argument, so that no op adds an edge between
    storages that were there before it: public traces are like that, and engines treat them apart.
    """
    size = 12 * longest
    tape = Tape(draw(st.binary(min_size=size, max_size=size)))
    builder = TraceBuilder("random")
    builder.constant("c", tape.one(SIZES))
    live, fresh = ["c"], 0
    old_edges = tape.one((False, True))
    for _ in range(3 + tape.below(longest - 2)):
        kind = tape.one(KINDS)
        if kind == "call":
            results = [f"t{fresh + index}" for index in range(1 + tape.below(3))]
            fresh += len(results)
            call(builder, tape, live, results, old_edges)
            live += results
        elif kind == "mutate":
            args = list(dict.fromkeys(tape.some(live, 1, 3 if old_edges else 1)))
            mutated = tape.some(range(len(args)), 1, len(args))
            builder.mutate("mutate", args, list(dict.fromkeys(mutated)), tape.one(COSTS))
        elif kind == "copy":
            builder.copy(f"t{fresh}", tape.one(live))
            live.append(f"t{fresh}")
            fresh += 1
        elif kind == "copy_from" and len(live) > 1:
            try:
                builder.copy_from(*tape.some(live, 2, 2))
            except TraceError:  # onto itself, and that was its last reference
                break
        elif len(live) > 1:
            builder.release(live.pop(tape.below(len(live))))
    return builder.build("0" * 64)


def call(builder, tape, live, results, old_edges):
    args = tape.some(live, 0 if len(live) > 1 else 1, 4)
    memory = [tape.one(SIZES) for _ in results]
    most = len(args) - 1 if old_edges or len(set(args)) == 1 else -1
    aliases = [tape.below(most + 2) - 1 for _ in results]
    builder.call(results, "op", args, tape.one(COSTS), memory, aliases)


@pytest.fixture(scope="session")
def random_traces():
    """A strategy: draw from it with `data.draw(random_traces)`."""
    return traces()


@pytest.fixture(scope="session")
def longer_random_traces():
    """As `random_traces`, up to 40 instructions."""
    return traces(40)


INTS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SINGLE = {
    int: st.one_of(st.integers(-1, 4), INTS),
    float: st.one_of(st.floats(allow_nan=False), INTS, st.sampled_from([1, 1.0, -0.0, 2**53 + 1])),
    bool: st.booleans(),
    str: TEXTS,
}
FOREIGN = st.one_of(st.none(), INTS, TEXTS, st.floats(allow_nan=False, allow_infinity=False))
EXTRAS = st.dictionaries(
    TEXTS.map("x_{}".format), st.one_of(FOREIGN, st.lists(FOREIGN, max_size=2)), max_size=2
)


def _single(values):
    base = SINGLE[values.base]
    if values.base is float and not values.infinite:
        base = base.filter(math.isfinite)
    return st.one_of(st.none(), base) if values.nullable else base


def _field_values(field):
    if field.name == "schema":
        return st.just(SCHEMA)
    if field.choices:
        return st.sampled_from(field.choices)
    if field.value is not None:
        return _single(field.value)
    items = [_single(item) for item in field.items]
    item = items[0] if len(items) == 1 else st.tuples(*items)
    return st.lists(item, max_size=3).map(tuple)


def _events_of(kind):
    fields = {field.name: _field_values(field) for field in FIELDS[kind]}
    extra = st.one_of(st.just({}), EXTRAS)
    return st.builds(EVENT_TYPES[kind], **fields, extra=extra)


@pytest.fixture(scope="session")
def event_of():
    """A strategy by kind: single events, each of them valid."""
    return {kind: _events_of(kind) for kind in EVENT_TYPES}


@pytest.fixture(scope="session")
def any_event(event_of):
    """A strategy: a valid event of any kind."""
    return st.one_of(*event_of.values())


@pytest.fixture(scope="session")
def event_lists(any_event):
    """A strategy: any valid events in any order; they make no sense as a run."""
    return st.lists(any_event, max_size=30)


@pytest.fixture(scope="session")
def layered_trace():
    """Makes a trace: forward and backward through layers, with all that makes logs interesting."""
    return _layered


def _layered(name, layers, constants):
    """The first constant is the weights, the last the input; views, pairs, repeats, a mutation."""
    builder = TraceBuilder(name)
    for constant, size in constants.items():
        builder.constant(constant, size)
    weights, *others = constants
    previous = others[-1] if others else weights
    for layer in range(layers):
        split = [f"a{layer}", f"s{layer}"]
        builder.call(split, "split", [previous, weights], 5, [16, 4], [-1, -1])
        builder.call([f"v{layer}"], "view", [f"a{layer}"], 1, [0], [0])
        builder.call([f"f{layer}"], "square", [f"v{layer}", f"v{layer}"], 7, [16], [-1])
        previous = f"f{layer}"
    builder.call([f"g{layers}"], "loss", [previous], 3, [16], [-1])
    for layer in reversed(range(layers)):
        operands = [f"g{layer + 1}", f"f{layer}", f"v{layer}", f"s{layer}"]
        builder.call([f"g{layer}"], "backward", operands, 11, [16], [-1])
        for released in (f"g{layer + 1}", f"f{layer}", f"v{layer}", f"a{layer}"):
            builder.release(released)
    builder.mutate("step", [weights, "g0"], [0], 2)
    builder.copy("kept", "g0")
    builder.release("g0")
    return builder.build("0" * 64)
