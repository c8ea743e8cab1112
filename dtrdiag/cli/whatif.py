"""``dtrdiag whatif``: what would have happened, had one thing been different?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.analyses import diff_document, diff_runs
from dtrdiag.cli.changes import Changes, Given, Place, events_given, indices_of
from dtrdiag.cli.options import Budget, Json, Policy, Ratio, Rules, RunArgument, takes_rules
from dtrdiag.cli.output import check_outputs, print_json, print_sentences, print_table
from dtrdiag.cli.sources import (
    OpenRun,
    RunOptions,
    check_no_map,
    is_event_log,
    load_trace,
    record,
    recorded,
    watched_log,
)
from dtrdiag.errors import AnalysisError, UsageError
from dtrdiag.events.records import End, RunHeader
from dtrdiag.experiments.policyfile import load_policy_file
from dtrdiag.instrumentation import check_log_name
from dtrdiag.interventions import TIE_BREAKS, parse_interventions
from dtrdiag.log import open_log
from dtrdiag.rendering.whatif import moved_facts, whatif_table, whatif_words
from dtrdiag.simulator import RunConfig
from dtrdiag.simulator.run import RUNTIME
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import known_traces

WHATIF_SCHEMA = "dtrdiag.whatif/1"


def _many(metavar: str, help: str) -> Any:
    return typer.Option(metavar=metavar, help=help, show_default=False)


Forced = Annotated[list[str] | None, _many("SEQ=STORAGE", "Evict this storage there.")]
Forbidden = Annotated[list[str] | None, _many("SEQ[=STORAGE]", "Evict another storage there.")]
TieBreak = Annotated[
    str | None, _many("|".join(TIE_BREAKS), "Which of equal scores goes (last in the pool).")
]
PolicyFrom = Annotated[list[str] | None, _many("SEQ=POLICY", "Another policy from there on.")]
BudgetFrom = Annotated[list[str] | None, _many("SEQ=SIZE", "Another budget from there on.")]
Pins = Annotated[list[int] | None, _many("STORAGE", "Pin it once it is computed.")]
Keeps = Annotated[list[int] | None, _many("STORAGE", "Never evict it under pressure.")]
Costs = Annotated[list[str] | None, _many("OP=NS", "Another cost of an op.")]
Sizes = Annotated[list[str] | None, _many("STORAGE=SIZE", "Another size of a storage.")]
Epsilon = Annotated[float | None, _many("E", "Noise on every cost: x becomes x (1 +- E).")]
SizeEpsilon = Annotated[float | None, _many("E", "Noise on every size.")]
NoiseSeed = Annotated[int | None, _many("N", "Seed of the noise (0).")]
TraceOption = Annotated[str | None, _many("TRACE", "The trace that a saved log is of.")]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="LOG", help="Write the intervened run's log."),
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace LOG if it exists.")]


@takes_rules
def whatif(
    run: RunArgument,
    rules: Rules,
    policy: Policy = None,
    ratio: Ratio = None,
    budget: Budget = None,
    force: Forced = None,
    forbid: Forbidden = None,
    tie_break: TieBreak = None,
    policy_from: PolicyFrom = None,
    budget_from: BudgetFrom = None,
    pin: Pins = None,
    keep: Keeps = None,
    cost: Costs = None,
    size: Sizes = None,
    epsilon: Epsilon = None,
    size_epsilon: SizeEpsilon = None,
    noise_seed: NoiseSeed = None,
    trace: TraceOption = None,
    output: Output = None,
    replace: Replace = False,
    json: Json = False,
) -> None:
    """Run again with one thing changed, and compare.

    SEQ is an event of the run's log, and means the first decision from there on (--force, --forbid:
    the first eviction under pressure); @N is the decision of index N. --semantics and --repair are
    changes here: the run as it was follows the published rules, or those of its log.
    """
    places = (force, forbid, tie_break, policy_from, budget_from)
    given = Given(*places, pin, keep, cost, size, epsilon, size_epsilon, noise_seed)
    changes = given.parsed(rules.repairs())
    if not changes and rules.semantics is None:
        raise UsageError("nothing is to be changed: give --force, --forbid, --tie-break, ...")
    _check_output(output, replace, run)
    own = attrs.evolve(rules, semantics=None, repair=None)
    loaded, config, digest = _base(run, RunOptions(policy, ratio, budget, own), trace)
    with recorded(loaded, config) as base:
        _check_same(base, digest, run)
        indices = indices_of(changes.places(), base.log)
        target = _intervened(config, changes, rules.semantics, indices)
        with _kept(loaded, target, output, replace) as other:
            _answer(base, other, events_given(indices), output, json)


def _check_output(output: str | None, replace: bool, run: str) -> None:
    if output is None:
        if replace:
            raise UsageError("--replace has no effect without -o LOG")
        return
    if not output:
        raise UsageError("-o needs the name of a log, not an empty text")
    check_outputs([output], replace, option="--replace", inputs=[run])
    check_log_name(output)


def _base(run: str, options: RunOptions, trace: str | None) -> tuple[Trace, RunConfig, str | None]:
    """The trace, the rules of the run as it was, and the digest that a saved log gives for it."""
    check_no_map(run)
    if not is_event_log(run):
        if trace is not None:
            raise UsageError("--trace is for a saved log; this is a trace itself", path=run)
        options.check()
        loaded = load_trace(run)
        return loaded, options.config(loaded), None
    rules = attrs.evolve(options.rules, policy_file=None, engine=None)
    given = attrs.evolve(options, rules=rules).given()
    if given:
        raise UsageError(f"{given[0]} does not apply to a saved log, which is a run", path=run)
    if options.rules.policy_file is not None:
        load_policy_file(options.rules.policy_file)
    log = watched_log(run)
    loaded = _trace_of(log.header, trace, run)
    end = next((event for event in log if isinstance(event, End)), None)
    digest = None if end is None else end.decisions_sha256
    return loaded, _config_of(log.header, options.rules.engine, run), digest


def _trace_of(header: RunHeader, given: str | None, path: str) -> Trace:
    name = header.trace_name if given is None else given
    if given is None and name not in {entry.name for entry in known_traces()}:
        raise UsageError(f"the log is of {name[:60]!r}, no known trace: add --trace", path=path)
    loaded = load_trace(name)
    if header.trace_sha256 != loaded.sha256:
        hint = ": add --trace" if given is None else ""
        raise UsageError(f"the log is of another trace than {name[:60]}{hint}", path=path)
    return loaded


def _config_of(header: RunHeader, engine: str | None, path: str) -> RunConfig:
    if header.runtime != RUNTIME:
        raise UsageError(
            f"made by {header.runtime[:60]}, whose runs cannot be made again here", path=path
        )
    return RunConfig(
        header.policy,
        header.budget_bytes,
        dealloc=header.dealloc,
        overhead_limit=header.overhead_limit,
        seed=header.seed or 0,
        candidates=header.candidates,
        semantics=header.semantics,
        peak_bytes=header.peak_bytes,
        ratio=header.ratio,
        interventions=parse_interventions(header.interventions),
        engine=engine or "auto",
    )


def _check_same(base: OpenRun, digest: str | None, path: str) -> None:
    """Refuse a log that is not what its own header gives: its SEQs would mean something else."""
    if digest is None or base.result is None or base.result.end.decisions_sha256 == digest:
        return
    raise AnalysisError("the log is not what a run of its trace under its header gives", path=path)


def _intervened(
    config: RunConfig, changes: Changes, semantics: str | None, indices: Mapping[Place, int]
) -> RunConfig:
    semantics = config.semantics if semantics is None else semantics
    if semantics == "repaired" and changes.rest.repairs:
        raise UsageError("--repair has no effect where repaired semantics repair everything")
    interventions = changes.applied(config.interventions, indices)
    changed = attrs.evolve(config, semantics=semantics, interventions=interventions)
    if changed == config:
        raise UsageError("nothing is to be changed: this is how the run is")
    return changed


@contextmanager
def _kept(trace: Trace, config: RunConfig, output: str | None, replace: bool) -> Iterator[OpenRun]:
    if output is None:
        with recorded(trace, config) as run:
            yield run
        return
    result = record(trace, config, output, replace)
    yield OpenRun(open_log(output), result)


def _answer(
    base: OpenRun,
    other: OpenRun,
    events: Mapping[tuple[str, int], int],
    output: str | None,
    json: bool,
) -> None:
    found = diff_runs(base.log, other.log)
    diff = diff_document(found)
    was, now = base.complete(diff["a"]), other.complete(diff["b"])
    facts = ("decisions_sha256", "outcome")
    document = {
        "schema": WHATIF_SCHEMA,
        "interventions": now["interventions"],
        "semantics": now["semantics"],
        "base": was,
        "run": now,
        "changed": any(was[name] != now[name] for name in facts),
        "moved": [name for name, is_other in moved_facts(was, now).items() if is_other],
        "common_prefix": diff["common_prefix"],
        "first_divergence": diff["first_divergence"],
        "log": output,
    }
    if json:
        print_json(document)
        return
    print_sentences(whatif_words(document, found, events))
    if document["moved"]:
        print_table(whatif_table(was, now))
    if output is not None:
        print_sentences(["", f"The log of the intervened run is in {output}."])
