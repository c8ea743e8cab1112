"""Which command line makes a run again, with every option that it was made with?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from dtrdiag.events.records import RunHeader
from dtrdiag.interventions import Interventions, Noise, parse_interventions

DEFAULTS = {"dealloc": "eager", "seed": 0, "semantics": "simrd", "overhead_limit": 10}
"""What a run has that says nothing else; such options are left out."""


def run_command(header: RunHeader, *budgets: int | str, verb: str = "run") -> str:
    """The command that makes a run again: `run`, or `whatif` where something was changed in it.

    A trace is named as the log does; one from a file needs the file in place of its name.

    Args:
        header: of the run, or of any other that differs from it in the budget alone.
        budgets: its budget, in bytes, or a text that stands for one; none: unlimited.
        verb: another verb that takes the options of a run, and several budgets, perhaps.
    """
    parts = ["dtrdiag", "whatif" if changed(header) else verb, header.trace_name]
    parts += ["-p", header.policy]
    words = [shlex.quote(part) for part in parts]
    words += [f"-b {budget}" for budget in budgets]
    words += [shlex.quote(part) for part in (*_rules(header), *_changes(header))]
    return " ".join(words)


def whatif_command(header: RunHeader, option: str, policy_file: str | None = None) -> str:
    """The command that makes a run again with one more thing changed, at an event of its log.

    Args:
        header: of the run.
        option: of `whatif`, such as `--forbid 17`.
        policy_file: where the run's policy is from; None: it is built in, or that is not known.
    """
    file = "" if policy_file is None else f" --policy-file {shlex.quote(policy_file)}"
    budgets = () if header.budget_bytes is None else (header.budget_bytes,)
    if header.semantics == DEFAULTS["semantics"] and header.interventions is None:
        return f"{run_command(header, *budgets, verb='whatif')}{file} {option}"
    # To `whatif` a trace is a run without any change, whose events have other numbers.
    made = f"{run_command(header, *budgets)}{file} -o run.jsonl"
    return f"{made} && dtrdiag whatif run.jsonl{file} {option}"


def changed(header: RunHeader) -> bool:
    """Whether more was changed in a run than defects repaired, which only `whatif` does."""
    changes = _interventions(header)
    return changes != Interventions(repairs=changes.repairs)


def rules_words(header: RunHeader) -> str:
    """What a run follows besides policy and budget, where it is not what is usual.

    Empty, or beginning with a comma and a space.
    """
    limit = header.overhead_limit
    words = [
        f"--dealloc {header.dealloc}" if header.dealloc != DEFAULTS["dealloc"] else "",
        f"overhead limit {'none' if limit is None else limit}"
        if limit != DEFAULTS["overhead_limit"]
        else "",
        f"{header.semantics} semantics" if header.semantics != DEFAULTS["semantics"] else "",
    ]
    return "".join(f", {each}" for each in words if each)


def _rules(header: RunHeader) -> Iterator[str]:
    if header.dealloc != DEFAULTS["dealloc"]:
        yield from ("--dealloc", header.dealloc)
    limit = header.overhead_limit
    if limit != DEFAULTS["overhead_limit"]:
        yield from ("--overhead-limit", "none" if limit is None else str(limit))
    if header.seed != DEFAULTS["seed"]:
        yield from ("--seed", str(header.seed))
    if header.semantics != DEFAULTS["semantics"]:
        yield from ("--semantics", header.semantics)


def _interventions(header: RunHeader) -> Interventions:
    return parse_interventions(header.interventions)


def _changes(header: RunHeader) -> Iterator[str]:
    changes = _interventions(header)
    for name in changes.repairs:
        yield from ("--repair", name)
    if changes.tie_break != "last":
        yield from ("--tie-break", changes.tie_break)
    for victim in changes.victims:
        which = "" if victim.storage is None else f"={victim.storage}"
        yield from ("--force" if victim.forced else "--forbid", f"@{victim.at}{which}")
    for at, policy in changes.policies:
        yield from ("--policy-from", f"@{at}={policy}")
    for at, budget_bytes in changes.budgets:
        yield from ("--budget-from", f"@{at}={budget_bytes}")
    for option, storages in (("--pin", changes.pins), ("--keep", changes.keeps)):
        for storage in storages:
            yield from (option, str(storage))
    for option, figures in (("--cost", changes.op_costs), ("--size", changes.sizes)):
        for what, figure in figures:
            yield from (option, f"{what}={figure}")
    yield from _noise(changes.cost_noise, changes.size_noise)


def _noise(costs: Noise | None, sizes: Noise | None) -> Iterator[str]:
    for option, noise in (("--epsilon", costs), ("--size-epsilon", sizes)):
        if noise is not None:
            yield from (option, repr(noise.epsilon))
    seed = next((noise.seed for noise in (costs, sizes) if noise is not None), 0)
    if seed:
        yield from ("--noise-seed", str(seed))
