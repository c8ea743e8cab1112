"""A training step under a memory budget computes what plain PyTorch computes, to the bit.

Bytes are counted by a witness that is told nothing by the runtime: it sees the kernels that are
called and keeps weak references to the storages of their arguments and results.
"""

from itertools import cycle

import pytest
import torch

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.errors import (
    BudgetError,
    RematOutOfMemoryError,
    RematThrashedError,
)
from dtrdiag.instrumentation.pytorch.witness import Witness
from dtrdiag.instrumentation.pytorch.world import World
from dtrdiag.instrumentation.zoo import make
from dtrdiag.simulator import RunConfig, simulate

# Sizes at which most of the peak are activations, so that half of it can suffice.
BATCHES = {
    "resnet-20": {"batch": 4, "image": 16, "width": 4},
    "transformer": {"batch": 4, "length": 32, "dropout": 0.1},
    "gpt2": {"batch": 4, "length": 32, "dropout": 0.1},
}
SIX = ("resnet-20", "transformer", "gpt2", "lstm", "unet", "mamba")
FRACTIONS = (0.9, 0.7, 0.5)
POLICIES = ("dtr", "dtr-eq", "lru", "size")
STEPS = 4


def step_of(name, **options):
    return make(name, "small", **BATCHES.get(name, {}), **options)


def constants(step):
    return [*step.model.parameters(), *step.model.buffers()]


@pytest.fixture(scope="module")
def peaks():
    """Peak of a step in bytes, by model."""
    known = {}

    def peak(name):
        if name not in known:
            step = step_of(name)
            with remat(None, model=step.model) as rt:
                step.run()
            known[name] = rt.result.end.max_memory_bytes
        return known[name]

    return peak


def trained(name, optimizer, run):
    """All that four steps leave behind: losses, gradients, parameters, buffers, random states."""
    step = step_of(name, optimizer=optimizer)
    left = []
    with torch.random.fork_rng():
        torch.manual_seed(3)
        for number in range(STEPS):
            step.optimizer.zero_grad()
            loss = run(step, number)
            left.append(loss.detach().clone())
            left += [parameter.grad.clone() for parameter in step.model.parameters()]
            step.optimizer.step()
            left += [tensor.detach().clone() for tensor in constants(step)]
            left.append(torch.get_rng_state())
    return left


def eager(step, number):
    return step.run()


def within(budgets):
    """Runs each step under the next budget; a witness counts the bytes."""
    budgets = cycle(budgets)

    def run(step, number):
        budget = next(budgets)
        witness = Witness(constants(step))
        with witness, remat(budget, model=step.model) as rt:
            loss = step.run()
            assert witness.alive_bytes == rt.memory_bytes
        assert witness.peak_bytes == rt.result.end.max_memory_bytes <= budget
        return loss

    return run


def same(one, other):
    return len(one) == len(other) and all(
        type(a) is type(b) and torch.equal(a, b) for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", BATCHES)
def test_four_steps_under_less_and_less_memory_are_those_of_eager(name, optimizer, peaks):
    budgets = [int(peaks(name) * fraction) for fraction in FRACTIONS]
    assert same(trained(name, optimizer, eager), trained(name, optimizer, within(budgets)))


@pytest.mark.slow
@pytest.mark.parametrize("fraction", FRACTIONS)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("name", BATCHES)
def test_four_steps_under_one_budget_are_those_of_eager(name, optimizer, fraction, peaks):
    budget = int(peaks(name) * fraction)
    assert same(trained(name, optimizer, eager), trained(name, optimizer, within([budget])))


@pytest.mark.parametrize(
    ("name", "broken"), [("gpt2", "replays_random_state"), ("resnet-20", "copies_on_write")]
)
def test_without_it_the_values_are_wrong(name, broken, peaks, monkeypatch):
    monkeypatch.setattr(World, broken, False)
    budget = int(peaks(name) * 0.6)

    def run(step, number):
        with remat(budget, model=step.model):
            return step.run()

    assert not same(trained(name, "sgd", eager), trained(name, "sgd", run))


def test_an_eviction_that_keeps_the_tensor_is_seen_by_the_witness(peaks, monkeypatch):
    monkeypatch.setattr(World, "drops_evicted", False)
    step = step_of("gpt2")
    witness = Witness(constants(step))
    budget = int(peaks("gpt2") * 0.7)
    with witness, remat(budget, model=step.model) as rt:
        step.run()
    assert rt.result.end.max_memory_bytes <= budget < witness.peak_bytes


# --- decisions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded():
    """The recorded step of a model."""
    known = {}

    def trace(name):
        if name not in known:
            step = step_of(name)
            with record(None, step.model) as r:
                step.run()
            known[name] = r.trace
        return known[name]

    return trace


def events_of(run):
    """What a run emits, but for the header, in which the runtime differs."""
    events = []
    hooks = Hooks()
    hooks.subscribe(events.append)
    run(hooks)
    return events[1:]


def lived(name, trace, hooks, policy, budget, limit=3.0):
    step = step_of(name)
    try:
        with remat(
            budget,
            policy,
            model=step.model,
            trace=trace,
            overhead_limit=limit,
            hooks=hooks,
            candidates=2,
        ):
            step.run()
    except (RematOutOfMemoryError, RematThrashedError) as error:
        # The program has its own reasons to keep an error; here nobody keeps the frames.
        error.__traceback__ = None


def compared(name, trace, policy, budget):
    """Outcome of a simulated run, after comparing it with the live one event by event."""
    config = RunConfig(policy, budget, overhead_limit=3.0, candidates=2, engine="python")
    simulated = events_of(lambda hooks: simulate(trace, config, hooks=hooks))
    outcome = simulated[-1].outcome
    try:
        live = events_of(lambda hooks: lived(name, trace, hooks, policy, budget))
    except BudgetError:
        # Refused before it begins: below constants and gradients nothing can end well.
        assert outcome != "ok"
        return "refused"
    assert live == simulated
    return outcome


@pytest.mark.parametrize(
    ("name", "policy", "fractions", "outcomes"),
    [
        ("resnet-20", "dtr-eq", (0.7, 0.35), ["ok", "oom"]),
        ("transformer", "dtr", (0.7, 0.35), ["ok", "oom"]),
        ("gpt2", "size", (0.6, 0.5), ["ok", "thrashed"]),
        ("lstm", "dtr", (0.95, 0.6), ["ok", "oom"]),
        ("unet", "lru", (0.9, 0.6), ["ok", "thrashed"]),
        ("mamba", "dtr-eq", (0.9, 0.5), ["ok", "oom"]),
    ],
)
def test_decisions_are_those_of_a_simulation_of_the_recorded_step(
    name, policy, fractions, outcomes, recorded
):
    trace = recorded(name)
    peak = simulate(trace, RunConfig()).end.max_memory_bytes
    came = [compared(name, trace, policy, int(peak * fraction)) for fraction in fractions]
    assert came == outcomes


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SIX)
def test_decisions_are_those_of_a_simulation_in_all_of_a_matrix(name, policy, recorded):
    trace = recorded(name)
    peak = simulate(trace, RunConfig()).end.max_memory_bytes
    came = [compared(name, trace, policy, int(peak * each)) for each in (0.9, 0.7, 0.5, 0.35)]
    assert set(came) & {"ok", "oom", "thrashed"}
