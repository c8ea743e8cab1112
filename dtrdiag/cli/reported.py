"""Which page do the arguments of ``dtrdiag report`` ask for? What a file is, is told by content."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import orjson

from dtrdiag.analyses import Divergence, RunDiff, diff_runs, summarise
from dtrdiag.cli.activity import reading
from dtrdiag.cli.diff import pair_options
from dtrdiag.cli.options import Rules
from dtrdiag.cli.output import note
from dtrdiag.cli.sources import (
    OpenRun,
    RunOptions,
    is_event_log,
    is_file_of_snapshot,
    load_trace,
    opened_run,
    recorded,
)
from dtrdiag.errors import InputError, SubscriberError, UsageError
from dtrdiag.events.records import Candidate, Event, Evict
from dtrdiag.experiments.map_files import holds_map, read_map
from dtrdiag.experiments.resultsfolder import REQUEST, kept_outcomes
from dtrdiag.files import read_bytes
from dtrdiag.hooks import Hooks
from dtrdiag.log import read_snapshot
from dtrdiag.rendering.pages.parts import Page
from dtrdiag.rendering.replays import problem_words
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import Trace

LOG, TRACE, MAP, SWEEP, LEDGER = "log", "trace", "map", "sweep", "ledger"
SNAPSHOT = "snapshot"
WORDS = {
    LOG: "an event log",
    TRACE: "a trace",
    MAP: "a saved map",
    SWEEP: "a sweep's folder",
    LEDGER: "the results of `dtrdiag reproduce`",
    SNAPSHOT: "a memory snapshot",
}
RUN, PAIR = "run", "pair"
RESULTS = "results.json"
"""What `dtrdiag reproduce -o DIR` calls its document."""
CANDIDATES = 8
"""How many losing candidates the page of a pair lists."""
_LEDGER_MARK = b'"dtrdiag.reproduce/'


@attrs.frozen
class Asked:
    """What a page is to be about.

    Attributes:
        kind: `run`, `pair`, `map`, `sweep`, `ledger` or `snapshot`.
        page: makes it, given the text that says who made it.
    """

    kind: str
    page: Callable[[str], Page]


def kind_of(text: str) -> str:
    """What an argument names: one of `WORDS`.

    Raises:
        UsageError: a folder that is neither a sweep's nor of `dtrdiag reproduce`.
    """
    if os.path.isdir(text):
        if _is_ledger(os.path.join(text, RESULTS)):
            return LEDGER
        if os.path.isfile(os.path.join(text, REQUEST)):
            return SWEEP
        raise UsageError("a folder, but not of a sweep or of `dtrdiag reproduce`", path=text)
    if _is_ledger(text):
        return LEDGER
    if holds_map(text):
        return MAP
    if is_file_of_snapshot(text):
        return SNAPSHOT
    return LOG if is_event_log(text) else TRACE


def asked_for(
    texts: Sequence[str],
    policies: list[str] | None,
    ratios: list[str] | None,
    budgets: list[str] | None,
    rules: Rules,
) -> Asked:
    """What a page is to be about; nothing large is read yet.

    Raises:
        UsageError: there is no page about these together, or options do not apply to them.
    """
    kinds = [kind_of(text) for text in texts]
    if set(kinds) <= {LOG, TRACE}:
        return _runs(texts, policies, ratios, budgets, rules)
    if kinds.count(SNAPSHOT) == 1 and set(kinds) == {SNAPSHOT, LOG}:
        return _snapshot(texts, kinds, policies, ratios, budgets, rules)
    if len(set(kinds)) > 1:
        listed = " and ".join(dict.fromkeys(WORDS[kind] for kind in kinds))
        raise UsageError(f"there is no page about {listed} together")
    (kind,) = set(kinds)
    _check_no_options(kind, texts, policies, ratios, budgets, rules)
    if kind == MAP:
        return Asked(MAP, lambda made_by: _map_page(texts, made_by))
    if len(texts) > 1:
        counted = Counter(kinds)[kind]
        raise UsageError(f"a page is about one of these, not {counted}: {WORDS[kind]}")
    if kind == SNAPSHOT:
        return Asked(SNAPSHOT, lambda made_by: _snapshot_page(texts[0], (), made_by))
    page = _sweep_page if kind == SWEEP else _ledger_page
    return Asked(kind, lambda made_by: page(texts[0], made_by))


def _check_no_options(
    kind: str,
    texts: Sequence[str],
    policies: list[str] | None,
    ratios: list[str] | None,
    budgets: list[str] | None,
    rules: Rules,
) -> None:
    options = (("-p", policies), ("-r", ratios), ("-b", budgets))
    given = [name for name, values in options if values is not None] + rules.given()
    if given:
        raise UsageError(f"{given[0]} does not apply to {WORDS[kind]}", path=texts[0])


def _snapshot(
    texts: Sequence[str],
    kinds: Sequence[str],
    policies: list[str] | None,
    ratios: list[str] | None,
    budgets: list[str] | None,
    rules: Rules,
) -> Asked:
    """A snapshot beside logs."""
    snapshot = texts[kinds.index(SNAPSHOT)]
    _check_no_options(SNAPSHOT, [snapshot], policies, ratios, budgets, rules)
    logs = [text for text, kind in zip(texts, kinds, strict=True) if kind == LOG]
    return Asked(SNAPSHOT, lambda made_by: _snapshot_page(snapshot, logs, made_by))


def _runs(
    texts: Sequence[str],
    policies: list[str] | None,
    ratios: list[str] | None,
    budgets: list[str] | None,
    rules: Rules,
) -> Asked:
    if len(texts) > 2:
        raise UsageError(
            f"a page is about one run or two, not {len(texts)}; for many budgets of a trace, "
            "report on a saved map of it or on a sweep's folder"
        )
    many = (policies, ratios, budgets)
    twice = any(len(values or ()) > 1 for values in many)
    if len(texts) == 1 and not (twice and not is_event_log(texts[0])):
        policy, ratio, budget = (values[0] if values else None for values in many)
        options = RunOptions(policy, ratio, budget, rules)
        return Asked(RUN, lambda made_by: _run_page(texts[0], options, made_by))
    run_a, run_b = texts[0], texts[1] if len(texts) == 2 else None
    sides = pair_options(run_a, run_b, policies, ratios, budgets, rules)
    return Asked(PAIR, lambda made_by: _pair_page((run_a, run_b or run_a), sides, made_by))


def _run_page(text: str, options: RunOptions, made_by: str) -> Page:
    from dtrdiag.rendering.pages.runpage import run_page

    with opened_run(text, options) as opened:
        page = run_page(opened.log, made_by)
        _note_problem(opened)
        return page


@attrs.frozen
class _Side:
    """One run of a pair, and what it is simulated from, if it is."""

    run: OpenRun
    trace: Trace | None = None
    config: RunConfig | None = None


def _pair_page(texts: tuple[str, str], sides: Sequence[RunOptions], made_by: str) -> Page:
    from dtrdiag.rendering.pages.pairpage import pair_page

    with ExitStack() as stack:
        traces: dict[str, Trace] = {}
        a, b = (
            _opened(stack, text, options, traces)
            for text, options in zip(texts, sides, strict=True)
        )
        found = diff_runs(a.run.log, b.run.log)
        for side in (a, b):
            _note_problem(side.run)
        return pair_page(a.run.log, b.run.log, made_by, _with_candidates(found, a, b))


def _opened(stack: ExitStack, text: str, options: RunOptions, traces: dict[str, Trace]) -> _Side:
    if is_event_log(text):
        return _Side(stack.enter_context(opened_run(text, options)))
    options.check()
    if text not in traces:
        traces[text] = load_trace(text)
    config = options.config(traces[text])
    return _Side(stack.enter_context(recorded(traces[text], config)), traces[text], config)


def _with_candidates(found: RunDiff, a: _Side, b: _Side) -> RunDiff:
    """A diff whose divergence lists the best losers, where the runs can be made again.

    Listing them for every eviction would take longer than everything else.
    """
    divergence = found.divergence
    if divergence is None:
        return found
    for name, side in (("a", a), ("b", b)):
        decision = getattr(divergence, name)
        if side.trace is None or side.config is None or decision.score is None:
            continue
        losers = _losers(side.trace, side.config, decision.seq)
        divergence = _evolved(divergence, name, attrs.evolve(decision, candidates=losers))
    return attrs.evolve(found, divergence=divergence)


def _evolved(divergence: Divergence, name: str, decision: Any) -> Divergence:
    if name == "a":
        return attrs.evolve(divergence, a=decision)
    return attrs.evolve(divergence, b=decision)


class _SeenError(InputError):
    """The eviction that was looked for has been seen."""


def _losers(trace: Trace, config: RunConfig, seq: int) -> tuple[Candidate, ...]:
    """The best losers of the eviction that is event `seq` of a run, which goes no further."""
    found: list[Candidate] = []

    def watch(event: Event) -> None:
        if event.seq == seq and isinstance(event, Evict):
            found.extend(event.candidates)
        if event.seq >= seq:
            raise _SeenError("seen")

    hooks = Hooks()
    hooks.subscribe(watch, {"evict"})
    try:
        simulate(trace, attrs.evolve(config, candidates=CANDIDATES), hooks)
    except SubscriberError as error:
        if not isinstance(error.__cause__, _SeenError):
            raise
    return tuple(found)


def _map_page(texts: Sequence[str], made_by: str) -> Page:
    from dtrdiag.rendering.pages.mappage import map_page

    saved = [read_map(text) for text in texts]
    return map_page([each.between(each.from_bytes, each.to_bytes) for each in saved], made_by)


def _sweep_page(text: str, made_by: str) -> Page:
    from dtrdiag.rendering.pages.sweeppage import sweep_page

    try:
        return sweep_page(kept_outcomes(text), made_by)
    except UsageError as error:
        raise UsageError(error.what, path=error.path or text) from None


def _snapshot_page(text: str, logs: Sequence[str], made_by: str) -> Page:
    from dtrdiag.rendering.pages.snapshotpage import snapshot_page

    runs = []
    for path in logs:
        with opened_run(path, RunOptions()) as opened:
            runs.append((path, summarise(opened.log)))
            _note_problem(opened)
    reading(text)
    return snapshot_page(read_snapshot(text), made_by, runs)


def _ledger_page(text: str, made_by: str) -> Page:
    from dtrdiag.rendering.pages.ledgerpage import ledger_page

    path = os.path.join(text, RESULTS) if os.path.isdir(text) else text
    try:
        document = orjson.loads(read_bytes(path))
    except ValueError as error:
        raise InputError(f"not JSON: {error}", path=path) from None
    try:
        return ledger_page(document, made_by)
    except InputError as error:
        raise InputError(error.what, path=path) from error


def _is_ledger(path: str) -> bool:
    try:
        with Path(path).open("rb") as stream:
            return os.path.isfile(path) and _LEDGER_MARK in stream.read(200)
    except OSError:
        return False


def _note_problem(run: OpenRun) -> None:
    if run.log.problem is not None:
        note(f"dtrdiag: {run.log.path} is incomplete: it {problem_words(run.log.problem)}")
