"""Where do the checks of claims get their runs, logs and maps from, each made once?

Claims share runs: the pair that one compares is the pair whose budgets another intervenes in. A
`Laboratory` keeps what was made, for one process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs

from dtrdiag.errors import UsageError
from dtrdiag.experiments.ablation import Ablation, Variant, make_ablation, map_all
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.map_files import SavedMap, default_within
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.experiments.rows import definition_of
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import ParquetWriter, log_writer
from dtrdiag.interventions import Noise, parse_interventions
from dtrdiag.log import LogReader, open_log
from dtrdiag.simulator import (
    DEFAULT_OVERHEAD_LIMIT,
    RunConfig,
    RunResult,
    baseline_peak_bytes,
    budget_from_ratio,
    find_policy,
    simulate,
    simulate_in_columns,
)
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import resolve

Amount = float | int
"""A ratio of the peak as a float, or a number of bytes as an int."""


@attrs.frozen
class Run:
    """What a claim says of one run; `ratio` and `budget` are not both given."""

    trace: str
    policy: str = "dtr"
    ratio: float | None = None
    budget: int | None = None
    dealloc: str = "eager"
    overhead_limit: float | int | None = DEFAULT_OVERHEAD_LIMIT
    seed: int = 0
    semantics: str = "simrd"
    interventions: str | None = None

    def rules(self) -> RunConfig:
        """The rules of the run, without its budget.

        Raises:
            UsageError: one of them is unknown, or both a ratio and a budget are given.
        """
        if self.ratio is not None and self.budget is not None:
            raise UsageError("a run has a ratio or a budget, not both")
        find_policy(self.policy)
        return RunConfig(
            self.policy,
            dealloc=self.dealloc,
            overhead_limit=self.overhead_limit,
            seed=self.seed,
            semantics=self.semantics,
            interventions=parse_interventions(self.interventions),
        )


class Laboratory:
    """Makes runs, and none twice.

    Args:
        scratch: an empty folder for logs, which the caller removes.
        folder: where the ledger is; a trace named by a relative path is looked for there first.
    """

    def __init__(self, scratch: Path, folder: Path) -> None:
        self._scratch = scratch
        self._folder = folder
        self._suffix = "parquet" if find_spec("pyarrow") is not None else "jsonl.zst"
        self._traces: dict[str, Trace] = {}
        self._results: dict[tuple[str, RunConfig], RunResult] = {}
        self._logs: dict[tuple[str, RunConfig], Path] = {}
        self._maps: dict[tuple[str, RunConfig], Outcomes] = {}

    def trace(self, name: str) -> Trace:
        """The trace of a name, or of a file.

        Raises:
            MissingTraceError: a public trace that is not on this machine.
            DtrdiagError: no such trace, or it cannot be read.
        """
        if name not in self._traces:
            beside = self._folder / name
            self._traces[name] = resolve(os.fspath(beside) if beside.is_file() else name)
        return self._traces[name]

    def config(self, run: Run) -> RunConfig:
        """The rules of a run, its budget in bytes included.

        Raises:
            DtrdiagError: the trace cannot be had, has no peak that a ratio could refer to, or the
                rules cannot be used.
        """
        rules = run.rules()
        trace = self.trace(run.trace)
        if run.ratio is None:
            return attrs.evolve(rules, budget_bytes=run.budget)
        peak_bytes = baseline_peak_bytes(trace)
        return attrs.evolve(
            rules,
            budget_bytes=budget_from_ratio(peak_bytes, run.ratio),
            ratio=run.ratio,
            peak_bytes=peak_bytes,
        )

    def result(self, run: Run) -> RunResult:
        """What a run comes to.

        Raises:
            DtrdiagError: of `config`, or of the simulation.
        """
        config = self.config(run)
        key = (run.trace, config)
        if key not in self._results:
            self._results[key] = simulate(self.trace(run.trace), config)
        return self._results[key]

    def log(self, run: Run) -> LogReader:
        """The log of a run.

        Raises:
            DtrdiagError: of `config`, of the simulation, or of writing the log.
        """
        config = self.config(run)
        key = (run.trace, config)
        if key not in self._logs:
            path = self._scratch / f"{len(self._logs)}.{self._suffix}"
            self._results[key] = _record(self.trace(run.trace), config, path)
            self._logs[key] = path
        return open_log(self._logs[key])

    def budgets(self, run: Run, low: Amount, high: Amount) -> tuple[SavedMap, int, int]:
        """All intervals of a range, with its lowest and its highest budget.

        Raises:
            DtrdiagError: of `config`, of a run, or because the range is empty.
        """
        trace = self.trace(run.trace)
        rules = attrs.evolve(self.config(run), budget_bytes=None, ratio=None)
        rules = attrs.evolve(rules, peak_bytes=baseline_peak_bytes(trace))
        low_bytes, high_bytes = (self.amount(run.trace, end) for end in (low, high))
        known = self._maps.setdefault((run.trace, rules), Outcomes())
        Mapper(trace, rules, known).map_range(low_bytes, high_bytes)
        definition = definition_of(trace, rules, None)
        return SavedMap(definition, known, low_bytes, high_bytes), low_bytes, high_bytes

    def ablation(
        self,
        run: Run,
        variants: Sequence[Variant],
        noise: Sequence[Noise | None],
        given: Mapping[str, Any],
    ) -> Ablation:
        """The complete maps of many policies, over `from` to `to` of what is given.

        Raises:
            DtrdiagError: as `budgets`.
        """
        trace = self.trace(run.trace)
        rules = attrs.evolve(run.rules(), peak_bytes=baseline_peak_bytes(trace))
        low_bytes, high_bytes = (self.amount(run.trace, given[end]) for end in ("from", "to"))
        within = self.within(run.trace, given.get("within"), high_bytes)
        planned = make_ablation(rules, variants, noise, (low_bytes, high_bytes), within)
        known = tuple(
            self._maps.setdefault((run.trace, planned.rules_of(at)), Outcomes())
            for at in range(len(planned.keys))
        )
        ablation = attrs.evolve(planned, known=known)
        map_all(trace, ablation)
        return ablation

    def within(self, trace: str, within: Amount | None, high_bytes: int) -> int:
        """How close the budgets of a cliff are: as given, or as the verb `map` has it."""
        if within is not None:
            return self.amount(trace, within)
        return default_within(baseline_peak_bytes(self.trace(trace)), high_bytes)

    def amount(self, trace: str, amount: Amount) -> int:
        """Bytes of an amount.

        Raises:
            DtrdiagError: the trace cannot be had, or has no peak that a ratio could refer to.
        """
        if isinstance(amount, int):
            return amount
        return budget_from_ratio(baseline_peak_bytes(self.trace(trace)), amount)


def _record(trace: Trace, config: RunConfig, path: Path) -> RunResult:
    with log_writer(path) as writer:
        if isinstance(writer, ParquetWriter):
            return simulate_in_columns(trace, config, writer.write_batch)
        hooks = Hooks()
        hooks.subscribe(writer)
        return simulate(trace, config, hooks)
