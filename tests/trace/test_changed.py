"""A changed trace has other costs and sizes, drawn from a documented stream, and nothing else."""

from fractions import Fraction

import attrs
import numpy as np
import pytest

from dtrdiag.errors import UsageError
from dtrdiag.trace import TraceBuilder
from dtrdiag.trace.changed import changed_trace

COSTS = [0, 725, 26, 0]
SIZES = [832, 334, 7, 0, 0]
"""Costs and sizes of the trace below with noise of 0.5 and seed 1."""


@pytest.fixture(scope="module")
def trace():
    builder = TraceBuilder("small")
    builder.constant("x", 1000)
    builder.call(["a", "b"], "split", ["x"], 500, [300, 7], [-1, -1])
    builder.call(["v"], "view", ["a"], 40, [300], [0])
    builder.call(["z"], "f", ["v", "b"], 0, [0], [-1])
    return builder.build("ab" * 32)


def test_figures_are_set_and_the_rest_stays(trace):
    changed = changed_trace(trace, op_costs=[(1, 0), (3, 9)], sizes=[(2, 11)])
    assert changed.op_cost_ns.tolist() == [0, 0, 40, 9]
    assert changed.tensor_size_bytes.tolist() == [1000, 300, 11, 0, 0]
    assert changed.tensor_memory_bytes.tolist() == [1000, 300, 11, 300, 0]
    assert (changed.name, changed.sha256, changed.baseline_cost_ns) == ("small", "ab" * 32, 49)
    figures = ("op_cost_ns", "tensor_size_bytes", "tensor_memory_bytes")
    assert attrs.evolve(changed, **{name: getattr(trace, name) for name in figures}) == trace
    assert changed_trace(trace) == trace


def expected(figures, epsilon, seed, stream):
    draws = np.random.PCG64([seed, stream]).random_raw(len(figures)).tolist()
    shares = [1 + Fraction(epsilon) * (Fraction(draw >> 11, 1 << 52) - 1) for draw in draws]
    return [round(figure * share) for figure, share in zip(figures, shares, strict=True)]


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 0.999])
def test_noise_is_drawn_from_one_stream_for_costs_and_one_for_sizes(trace, epsilon):
    changed = changed_trace(trace, cost_noise=(epsilon, 3), size_noise=(epsilon, 3))
    assert changed.op_cost_ns.tolist() == expected([0, 500, 40, 0], epsilon, 3, 0)
    sizes = expected([1000, 300, 7, 0], epsilon, 3, 1)
    assert changed.tensor_size_bytes.tolist() == [*sizes[:3], 0, sizes[3]]
    assert changed.tensor_memory_bytes.tolist() == [*sizes[:3], 300, sizes[3]]


def test_the_streams_are_those_that_they_always_were(trace):
    changed = changed_trace(trace, cost_noise=(0.5, 1), size_noise=(0.5, 1))
    assert changed.op_cost_ns.tolist() == COSTS
    assert changed.tensor_size_bytes.tolist() == SIZES
    other = changed_trace(trace, cost_noise=(0.5, 2))
    assert other.op_cost_ns.tolist() != changed.op_cost_ns.tolist()
    assert other.tensor_size_bytes.tolist() == trace.tensor_size_bytes.tolist()


def test_single_figures_stand_after_noise(trace):
    changed = changed_trace(
        trace, op_costs=[(1, 123)], sizes=[(0, 77)], cost_noise=(0.5, 1), size_noise=(0.5, 1)
    )
    assert changed.op_cost_ns.tolist() == [0, 123, *COSTS[2:]]
    assert changed.tensor_size_bytes.tolist() == [77, *SIZES[1:]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"op_costs": [(4, 1)]}, "cost 4=1: the trace has no op 4, it has 4"),
        ({"op_costs": [(0, 1)]}, "cost 0=1: op 0 is a constant, which costs nothing"),
        ({"sizes": [(5, 1)]}, "size 5=1: the trace has no storage 5"),
        ({"sizes": [(3, 1)]}, "size 3=1: tensor 3 is no storage, it is an alias in 1"),
        ({"op_costs": [(1, (1 << 50) + 1)]}, "changed costs go up to 1125899906842625, the limit"),
        ({"sizes": [(1, 1 << 51)]}, "changed sizes go up to 2251799813685248, the limit"),
    ],
)
def test_what_cannot_be_is_refused(trace, changes, message):
    with pytest.raises(UsageError, match=message):
        changed_trace(trace, **changes)
