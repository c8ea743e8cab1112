"""Is a live run on CUDA right: values, bytes, decisions, errors? In a few minutes; skips without.

    python benchmarks/cuda_check.py             on the first GPU
    python benchmarks/cuda_check.py --device cpu    the same checks without one, to try the script

Values are compared to the bit with `torch.use_deterministic_algorithms(True)`. Bytes are counted
by the witness. Exit status 0: all is well, or there is no GPU; 1: something differs.
"""

from __future__ import annotations

import argparse
import gc
import os
from typing import Any

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.errors import (
    LiveRunError,
    RematOutOfMemoryError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.witness import Witness
from dtrdiag.instrumentation.zoo import make
from dtrdiag.simulator import RunConfig, simulate

SIZES: dict[str, dict[str, Any]] = {
    "transformer": {"batch": 16, "length": 64, "width": 64},
    "gpt2": {"batch": 16, "length": 64, "width": 64, "dropout": 0.1},
    "resnet-20": {"batch": 16},
}
FRACTIONS = (0.9, 0.7, 0.5)
POLICIES = ("dtr", "dtr-eq", "lru", "size")


def step_of(name: str, device: str) -> Any:
    """A step whose tensors are on the device."""
    with torch.device(device):
        return make(name, "small", optimizer="sgd", **SIZES[name])


def random_state(device: str) -> Any:
    return torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state()


def trained(name: str, device: str, budget: int | None, *, live: bool) -> list[Any]:
    """What four steps leave behind; with the bytes checked where they run live."""
    step, left = step_of(name, device), []
    torch.manual_seed(3)
    for _ in range(4):
        step.optimizer.zero_grad()
        if live:
            constants = [*step.model.parameters(), *step.model.buffers()]
            witness = Witness(constants)
            with witness, remat(budget, model=step.model) as rt:
                loss = step.run()
            if budget is not None and witness.peak_bytes > budget:
                raise SystemExit(f"FAILED {name}: {witness.peak_bytes} bytes of {budget}")
            left.append(rt.result)
        else:
            loss = step.run()
            left.append(None)
        left += [loss.detach().clone(), *(p.grad.clone() for p in step.model.parameters())]
        step.optimizer.step()
        left += [t.detach().clone() for t in (*step.model.parameters(), *step.model.buffers())]
        left.append(random_state(device))
    return left


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) for a, b in pairs if isinstance(a, torch.Tensor))


def events_of(run: Any) -> list[Any]:
    events: list[Any] = []
    hooks = Hooks()
    hooks.subscribe(events.append)
    run(hooks)
    return events[1:]


def decisions(name: str, device: str) -> tuple[int, dict[str, int]]:
    """How many runs decide as simulated; raises at one that does not."""
    step = step_of(name, device)
    with record(None, step.model) as r:
        step.run()
    trace = r.trace
    peak = simulate(trace, RunConfig()).end.max_memory_bytes
    came: dict[str, int] = {}

    def lived(policy: str, budget: int, hooks: Hooks) -> None:
        step = step_of(name, device)
        options: Any = {"trace": trace, "overhead_limit": 3.0, "hooks": hooks}
        try:
            with remat(budget, policy, model=step.model, **options):
                step.run()
        except LiveRunError:
            pass

    for policy in POLICIES:
        for fraction in (*FRACTIONS, 0.35):
            budget = int(peak * fraction)
            config = RunConfig(policy, budget, overhead_limit=3.0)
            simulated = events_of(lambda hooks, c=config: simulate(trace, c, hooks=hooks))
            live = events_of(lambda hooks, p=policy, b=budget: lived(p, b, hooks))
            if live != simulated:
                raise SystemExit(f"FAILED {name} {policy} {fraction}: decisions differ")
            outcome = simulated[-1].outcome
            came[outcome] = came.get(outcome, 0) + 1
    return sum(came.values()), came


def errors(device: str) -> None:
    """Refusals leave the model usable and no bytes."""
    step = step_of("gpt2", device)
    expected = trained("gpt2", device, None, live=False)[1]
    for error, block in (
        (UnsupportedOpError, lambda: step.run().reshape(1).nonzero()),
        (ValueError, lambda: (step.run(), int("x"))),
        (RematOutOfMemoryError, step.run),
    ):
        known = (*step.model.parameters(), *step.model.buffers(), *step.inputs)
        witness = Witness(known)
        alive = witness.alive_bytes
        budget = None
        if error is RematOutOfMemoryError:
            budget = 2 * sum(p.numel() * p.element_size() for p in step.model.parameters()) + 9_000
        try:
            with witness, remat(budget, model=step.model):
                block()
        except error:
            pass
        else:
            raise SystemExit(f"FAILED: no {error.__name__}")
        gc.collect()
        if witness.alive_bytes != alive:
            raise SystemExit(f"FAILED: {witness.alive_bytes - alive} bytes after {error.__name__}")
    torch.manual_seed(3)
    if not torch.equal(step.run().detach(), expected):
        raise SystemExit("FAILED: the model is not as before")


def main() -> None:
    """Run all checks and print one line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    device = parser.parse_args().device
    if device == "cuda" and not torch.cuda.is_available():
        print("skipped: there is no CUDA device")
        return
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in SIZES:
        plain = trained(name, device, None, live=False)
        unlimited = trained(name, device, None, live=True)
        peak = unlimited[0].end.max_memory_bytes
        for fraction in FRACTIONS:
            try:
                lived = trained(name, device, int(peak * fraction), live=True)
            except RematOutOfMemoryError as error:
                print(f"{name} at {fraction}: {error}")
                continue
            if not same(plain, lived):
                raise SystemExit(f"FAILED {name} at {fraction}: values differ")
            print(f"{name} at {fraction}: the same bits, {lived[0].end.remats} again, in budget")
        print(f"{name}: decisions as simulated in %d runs: %s" % decisions(name, device))
    errors(device)
    print("errors: named, nothing leaks, the model is usable")


if __name__ == "__main__":
    main()
