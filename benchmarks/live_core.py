"""What does deciding cost a live run, op by op, beside a simulation of the same program?

    python benchmarks/live_core.py             all programs and policies
    python benchmarks/live_core.py --repeat 9  more runs of each, the fastest counts

Nothing is computed: `execute` and `evict` do nothing, so all that is left is the machine, the
chooser and the calls themselves. `simulate` has the Python engine decide. Figures are processor
time in microseconds; an execution is a first one or a rematerialisation, and under pressure each is
charged with the evictions that made room for it. Nobody listens, so no event is built.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import attrs

from dtrdiag.simulator import LiveRun, RunConfig, RunResult, simulate
from dtrdiag.trace import Step, Trace, TraceBuilder
from dtrdiag.trace.generators import generate

Call = tuple[str, list[int], int, list[int], list[int]]
DEEP = {"depth": 100, "width": 16, "batch": 8}


def wide(ops: int, inputs: int) -> Trace:
    """Each op reads the last so many tensors, so it takes as many locks."""
    builder = TraceBuilder(f"wide-{ops}x{inputs}")
    names = [f"c{index}" for index in range(inputs)]
    for name in names:
        builder.constant(name, 1)
    for op in range(ops):
        builder.call([f"t{op}"], "op", names[-inputs:], 1000, [1000], [-1])
        names.append(f"t{op}")
        if op >= inputs:
            builder.release(f"t{op - inputs}")
    return builder.build("0" * 64)


def steps_of(trace: Trace) -> list[tuple[int, int, Call | None]]:
    """The schedule as a program knows it, so that taking a trace apart is not measured."""
    steps = []
    for kind, operand in zip(trace.step_kind.tolist(), trace.step_operand.tolist(), strict=True):
        call = None
        if kind in (Step.CALL, Step.CONSTANT):
            outputs = trace.outputs_of(operand)
            call = (
                trace.op_name[operand],
                trace.inputs_of(operand).tolist(),
                int(trace.op_cost_ns[operand]),
                [int(trace.tensor_memory_bytes[tensor]) for tensor in outputs],
                [int(trace.tensor_alias[tensor]) for tensor in outputs],
            )
        steps.append((int(kind), operand, call))
    return steps


def live(trace: Trace, config: RunConfig) -> Callable[[], RunResult]:
    """A function that makes the whole run."""
    steps = steps_of(trace)
    calls, constants = int(Step.CALL), int(Step.CONSTANT)
    retains, releases = int(Step.RETAIN), int(Step.RELEASE)

    def run() -> RunResult:
        going = LiveRun(
            config,
            execute=lambda op, defined: None,
            evict=lambda storage: None,
            baseline_cost_ns=trace.baseline_cost_ns,
        )
        outputs = []
        for kind, operand, call in steps:
            if kind == calls:
                going.call(*call)
            elif kind == constants:
                going.constant(call[3][0])
            elif kind == retains:
                going.retain(operand)
            elif kind == releases:
                going.release(operand)
            else:
                outputs.append(operand)
        return going.finish(outputs)

    return run


def fastest_s(run: Callable[[], RunResult], repeat: int) -> tuple[float, RunResult]:
    """Processor time of the fastest of some runs, and what it came to."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        result = run()
        times.append(time.process_time() - started)
    return min(times), result


def measure(trace: Trace, config: RunConfig, repeat: int) -> None:
    """Print one line."""
    config = attrs.evolve(config, engine="python")
    simulated, expected = fastest_s(lambda: simulate(trace, config), repeat)
    lived, result = fastest_s(live(trace, config), repeat)
    if result.end.decisions_sha256 != expected.end.decisions_sha256:
        raise SystemExit(f"{trace.name} {config.policy}: live decides otherwise")
    end = result.end
    executions = end.computes + end.remats
    budget = "unlimited" if config.budget_bytes is None else str(config.budget_bytes)
    figures = f"{1e6 * simulated / executions:8.1f} {1e6 * lived / executions:8.1f}"
    counts = f"{executions:7} {end.evictions_pressure:6}"
    ratio = f"{lived / simulated:6.2f}"
    print(f"{trace.name:23} {config.policy:10} {budget:>10} {counts} {figures} {ratio}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, help="runs of each; the fastest counts")
    parser.add_argument("--policy", action="append", help="only this policy; repeatable")
    options = parser.parse_args()
    policies = options.policy or ["dtr", "dtr-eq", "dtr-local", "lru"]
    deep = generate("residual-chain", **DEEP)
    ten = wide(2000, 10)
    peak = simulate(deep, RunConfig("lru")).end.max_memory_bytes
    print(
        f"{'program':23} {'policy':10} {'budget':>10} {'execs':>7} {'evict':>6} "
        f"{'simulate':>8} {'live':>8} {'ratio':>6}   (microseconds an execution)"
    )
    for policy in policies:
        measure(ten, RunConfig(policy, overhead_limit=None), options.repeat)
    for policy in policies:
        # lru and local costs thrash below that.
        shares = (None, 0.7, 0.4) if policy in ("dtr", "dtr-eq") else (None, 0.8)
        for share in shares:
            budget = None if share is None else int(peak * share)
            measure(deep, RunConfig(policy, budget), options.repeat)


if __name__ == "__main__":
    main()
