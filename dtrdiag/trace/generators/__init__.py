"""Which networks can be generated as traces, and how one is asked for by name.

A generator writes down one training step, forward and backward, of a network of a given depth,
width and batch. The formulas are in the docstring of each generator's module and in docs/traces.md;
`roofline` says what an operator costs, `recorder` when a tensor is released.
"""

from dtrdiag.trace.generators import linear_chain, recurrent, residual_chain, tree
from dtrdiag.trace.generators.registry import GENERATORS, Generator, generate, generator

__all__ = [
    "GENERATORS",
    "Generator",
    "generate",
    "generator",
    "linear_chain",
    "recurrent",
    "residual_chain",
    "tree",
]
