"""A TreeLSTM over a complete binary tree of `depth` levels above its 2^depth leaves.

Nodes are numbered as in a heap: the root is 1, the children of n are 2 n and 2 n + 1. They are
evaluated children first, left before right (post-order), and backward in reverse.

    leaf     gates = select(inputs, leaf) W' + b         3 width wide
             h, c = leaf_cell(gates)
    inner    gates = cat(h_left, h_right) U' + b         5 width wide
             h, c = tree_cell(gates, c_left, c_right)

The cells are fused kernels with two results, at 16 operations per element of h forward and 32
backward; a state has 4 batch width bytes, and weights are shared by all leaves and by all inner
nodes. `select` and `t` are views, and `chunk` gives the gradients of both children's h as views of
one storage. A classifier reads the root's h. Weight gradients are added up in place (`add_`,
MUTATE). The constants, the loss and the weight gradients remain.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from dtrdiag.trace.generators.layers import (
    classifier,
    linear,
    linear_input_gradient,
    linear_weight_gradients,
)
from dtrdiag.trace.generators.recorder import Recorder, Value
from dtrdiag.trace.generators.registry import generator
from dtrdiag.trace.generators.roofline import elements

MAX_DEPTH = 12
CELL_FLOPS = 16
"""Operations per element of h of a fused cell; its backward takes twice as many."""
LEAF_GATES = 3
INNER_GATES = 5


@attrs.frozen(slots=True)
class _Node:
    """What the backward pass of one node needs."""

    x: Value
    """Input of the linear layer: that of the leaf, or both children's h."""
    gates: Value
    h: Value
    c: Value


@generator("tree", max_depth=MAX_DEPTH)
def tree(net: Recorder, depth: int, width: int, batch: int) -> None:
    """TreeLSTM over a complete binary tree: depth levels above the leaves, fused cells."""
    network = _Tree(net, depth, width, batch)
    order = list(_post_order(depth))
    for number in order:
        network.forward(number)
    head_backward = classifier(net, network.nodes[1].h)
    net.backward()
    network.gradients[1] = (head_backward(), None)
    for number in reversed(order):
        network.backward(number)


def _post_order(depth: int) -> Iterator[int]:
    """Heap numbers of a complete tree, children before parents, left before right."""
    pending = [(1, False)]
    while pending:
        number, visited = pending.pop()
        if visited or number >= 1 << depth:
            yield number
        else:
            pending += [(number, True), (2 * number + 1, False), (2 * number, False)]


class _Tree:
    """The weights, the nodes made so far and the gradients of their states."""

    def __init__(self, net: Recorder, depth: int, width: int, batch: int) -> None:
        self.net = net
        self.first_leaf = 1 << depth
        self.state = (batch, width)
        self.inputs = net.constant("inputs", (self.first_leaf, batch, width))
        self.leaf_weight = net.constant("leaf.weight", (LEAF_GATES * width, width))
        self.leaf_bias = net.constant("leaf.bias", (LEAF_GATES * width,))
        self.weight = net.constant("inner.weight", (INNER_GATES * width, 2 * width))
        self.bias = net.constant("inner.bias", (INNER_GATES * width,))
        self.nodes: dict[int, _Node] = {}
        self.gradients: dict[int, tuple[Value, Value | None]] = {}

    def forward(self, number: int) -> None:
        name = f"n{number}"
        if number >= self.first_leaf:
            x = self.net.view("select", self.inputs, f"{name}.x", self.state)
            gates = linear(self.net, f"{name}.gates", x, self.leaf_weight, self.leaf_bias)
            cell, args = "leaf_cell", [gates]
        else:
            left, right = self.nodes[2 * number], self.nodes[2 * number + 1]
            joined = (self.state[0], 2 * self.state[1])
            x = self.net.op("cat", [left.h, right.h], f"{name}.x", joined, flops=0)
            gates = linear(self.net, f"{name}.gates", x, self.weight, self.bias)
            cell, args = "tree_cell", [gates, left.c, right.c]
        results = [(f"{name}.h", self.state), (f"{name}.c", self.state)]
        h, c = self.net.call(cell, args, results, flops=CELL_FLOPS * elements(self.state))
        self.nodes[number] = _Node(x, gates, h, c)

    def backward(self, number: int) -> None:
        node, (by_h, by_c) = self.nodes[number], self.gradients.pop(number)
        incoming = [by_h] if by_c is None else [by_h, by_c]
        name, work = f"g.n{number}", 2 * CELL_FLOPS * elements(self.state)
        results = [(f"{name}.gates", node.gates.shape)]
        if number >= self.first_leaf:
            args = [*incoming, node.gates, node.c]
            (gates,) = self.net.call("leaf_cell_backward", args, results, flops=work)
            weight, bias = self.leaf_weight, self.leaf_bias
            linear_weight_gradients(self.net, name, gates, node.x, weight, bias)
            return
        left, right = 2 * number, 2 * number + 1
        args = [*incoming, node.gates, node.c, self.nodes[left].c, self.nodes[right].c]
        results += [(f"g.n{left}.c", self.state), (f"g.n{right}.c", self.state)]
        gates, c_left, c_right = self.net.call("tree_cell_backward", args, results, flops=work)
        linear_weight_gradients(self.net, name, gates, node.x, self.weight, self.bias)
        by_x = linear_input_gradient(self.net, f"{name}.x", gates, self.weight)
        results = [(f"g.n{left}.h", self.state), (f"g.n{right}.h", self.state)]
        h_left, h_right = self.net.call("chunk", [by_x], results, flops=0, aliases=[0, 0])
        self.gradients[left], self.gradients[right] = (h_left, c_left), (h_right, c_right)
