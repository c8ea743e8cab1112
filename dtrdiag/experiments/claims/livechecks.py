"""What can evidence ask of live runs of PyTorch programs, beside simulated ones?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from dtrdiag.errors import LedgerError
from dtrdiag.experiments.claims.checks import bounded_run
from dtrdiag.experiments.claims.laboratory import Laboratory
from dtrdiag.experiments.claims.parameters import budget, count, limit, many, ratio, text
from dtrdiag.experiments.claims.registry import Document, Parser, check
from dtrdiag.experiments.fidelity import Asked, compare_points
from dtrdiag.experiments.fidelity_document import fidelity_document
from dtrdiag.experiments.subjects import Making, subject_of
from dtrdiag.instrumentation.pytorch.errors import TorchMissingError
from dtrdiag.instrumentation.pytorch.targets import Target
from dtrdiag.simulator import (
    DEFAULT_OVERHEAD_LIMIT,
    RunConfig,
    baseline_peak_bytes,
    budget_from_ratio,
    find_policy,
)


def _settings(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("a table of sizes, or of arguments of a function")
    return value


LIVE: Mapping[str, Parser] = {
    "target": text,
    "size": text,
    "settings": _settings,
    "policies": many(text),
    "ratios": many(ratio),
    "budgets": many(budget),
    "overhead_limit": limit,
    "repeat": count,
    "torch": text,
}


def _complete(given: Mapping[str, Any]) -> None:
    """Refuse what no run could be made of.

    Raises:
        LedgerError: not one of ratios and budgets.
        DtrdiagError: an unknown policy, or a target that is none.
    """
    if ("ratios" in given) == ("budgets" in given):
        raise LedgerError("give ratios or budgets, one of them")
    Target.parse(given["target"])
    for policy in given["policies"]:
        find_policy(policy)


@check("fidelity", LIVE, ("target", "policies"), _complete)
def fidelity_check(laboratory: Laboratory, given: Mapping[str, Any]) -> Document:
    """Live runs beside simulated ones, as `dtrdiag fidelity --json`.

    On one thread; of times only ratios are worth a predicate.

    Raises:
        TorchMissingError: PyTorch is not installed, or another version than the claim is about.
        DtrdiagError: the step cannot be had, recorded or run.
    """
    _require_torch(given.get("torch"))
    making = Making(Target.parse(given["target"]), given.get("settings", {}))
    if "size" in given:
        making = Making(making.target, making.settings, given["size"])
    with _one_thread():
        subject = subject_of(making)
        trace = subject.trace
        peak = baseline_peak_bytes(trace)
        budgets = [(each, None) for each in given.get("budgets", ())]
        budgets += [(budget_from_ratio(peak, each), each) for each in given.get("ratios", ())]
        rules = {"overhead_limit": given.get("overhead_limit", DEFAULT_OVERHEAD_LIMIT)}
        configs = [
            RunConfig(policy, size, peak_bytes=peak, ratio=share, **rules)
            for policy in given["policies"]
            for size, share in budgets
        ]
        points = compare_points(subject.bench, trace, configs, Asked(given.get("repeat", 0)))
    facts = {"name": trace.name, "sha256": trace.sha256, "ops": trace.ops}
    document = fidelity_document(points, trace=facts, recorded_on=subject.on, peak=peak)
    for point in document["points"]:
        for side in ("simulated", "live"):
            if point[side] is not None:
                point[side] = bounded_run(point[side])
    return document


def _require_torch(version: str | None) -> None:
    if find_spec("torch") is None:
        what = "a live run needs PyTorch, which is not installed: pip install 'dtrdiag[torch]'"
        raise TorchMissingError(what)
    import torch

    have = str(torch.__version__)
    if version is not None and not f"{have}.".startswith(f"{version}."):
        raise TorchMissingError(f"the claim is about PyTorch {version}, and {have} is installed")


@contextmanager
def _one_thread() -> Iterator[None]:
    """Kernels of small tensors lose more to threads that wait for each other than they gain."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
