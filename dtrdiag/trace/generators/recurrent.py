"""An unrolled LSTM: `depth` time steps of width hidden units and as many inputs.

One step, with the weights W_x, W_h of 4 width x width and the biases shared by all steps:

    gates = x_t W_x' + b_x                 select (view), t (view), addmm
    gates += h_{t-1} W_h' + b_h            t (view), addmm, add_ (MUTATE)
    i, f, g, o = chunk(gates)              four views of one storage
    c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)      sigmoid 3 times, tanh, mul twice, add
    h_t = sigmoid(o) tanh(c_t)                         tanh, mul

A gate has 4 batch width bytes. A product of (a, b) and (b, c) costs 2 a b c operations, an
elementwise operator one per element, sigmoid and tanh 4. A classifier reads the last h. The
backward pass walks the steps in reverse; the gradients of the shared weights are made by the last
step and added to in place by the others (`add_`, MUTATE), as are gradients that meet. The
constants, the loss and the weight gradients remain.
"""

from __future__ import annotations

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

GATES = ("i", "f", "g", "o")
ACTIVATION_FLOPS = 4
"""Operations per element of sigmoid, tanh and their backwards."""


@generator("recurrent")
def recurrent(net: Recorder, depth: int, width: int, batch: int) -> None:
    """Unrolled LSTM: depth time steps, shared weights, gradients accumulated in place."""
    cell = _Cell.make(net, width)
    sequence = net.constant("inputs", (depth, batch, width))
    h, c = net.constant("h.init", (batch, width)), net.constant("c.init", (batch, width))
    steps: list[_Step] = []
    for index in range(depth):
        x = net.view("select", sequence, f"s{index}.x", (batch, width))
        steps.append(cell.forward(net, f"s{index}", x, h, c))
        h, c = steps[-1].h, steps[-1].c
    head_backward = classifier(net, h)
    net.backward()
    by_h: Value = head_backward()
    by_c: Value | None = None
    for index in range(depth - 1, -1, -1):
        gates, by_c = cell.backward(net, f"g.s{index}", steps[index], by_h, by_c, index > 0)
        cell.weight_gradients(net, f"g.s{index}", steps[index], gates)
        if index > 0:
            by_h = linear_input_gradient(net, f"g.s{index}.h_in", gates, cell.weight_h)


@attrs.frozen(slots=True)
class _Step:
    """What the backward pass of one time step needs."""

    x: Value
    h_in: Value
    c_in: Value
    gates: dict[str, Value]
    """Gates after their activation."""
    squashed: Value
    """tanh of c."""
    c: Value
    h: Value


@attrs.frozen(slots=True)
class _Cell:
    """The weights, and one time step forward and backward."""

    weight_x: Value
    weight_h: Value
    bias_x: Value
    bias_h: Value

    @classmethod
    def make(cls, net: Recorder, width: int) -> _Cell:
        gates = len(GATES) * width
        return cls(
            net.constant("weight_x", (gates, width)),
            net.constant("weight_h", (gates, width)),
            net.constant("bias_x", (gates,)),
            net.constant("bias_h", (gates,)),
        )

    def forward(self, net: Recorder, name: str, x: Value, h: Value, c: Value) -> _Step:
        shape = x.shape
        work = ACTIVATION_FLOPS * elements(shape)
        total = linear(net, f"{name}.gates", x, self.weight_x, self.bias_x)
        net.mutate("add_", total, linear(net, f"{name}.gates_h", h, self.weight_h, self.bias_h))
        results = [(f"{name}.{gate}_in", shape) for gate in GATES]
        chunks = net.call("chunk", [total], results, flops=0, aliases=[0] * len(GATES))
        gates = {
            gate: net.op(_activation(gate), [chunk], f"{name}.{gate}", shape, flops=work)
            for gate, chunk in zip(GATES, chunks, strict=True)
        }
        kept = net.op("mul", [gates["f"], c], f"{name}.kept", shape)
        new = net.op("mul", [gates["i"], gates["g"]], f"{name}.new", shape)
        c_out = net.op("add", [kept, new], f"{name}.c", shape)
        squashed = net.op("tanh", [c_out], f"{name}.tanh_c", shape, flops=work)
        h_out = net.op("mul", [gates["o"], squashed], f"{name}.h", shape)
        return _Step(x, h, c, gates, squashed, c_out, h_out)

    def backward(
        self, net: Recorder, name: str, step: _Step, by_h: Value, by_c: Value | None, more: bool
    ) -> tuple[Value, Value | None]:
        """The gradients of all gates, (batch, 4 width), and of the cell state that came in."""
        shape, gates = step.h.shape, step.gates
        work = ACTIVATION_FLOPS * elements(shape)
        by_o = net.op("mul", [by_h, step.squashed], f"{name}.o", shape)
        by_squashed = net.op("mul", [by_h, gates["o"]], f"{name}.tanh_c", shape)
        args = [by_squashed, step.squashed]
        by_cell = net.op("tanh_backward", args, f"{name}.c", shape, flops=work)
        if by_c is not None:
            net.mutate("add_", by_cell, by_c)
        by_gate = {
            "i": net.op("mul", [by_cell, gates["g"]], f"{name}.i", shape),
            "f": net.op("mul", [by_cell, step.c_in], f"{name}.f", shape),
            "g": net.op("mul", [by_cell, gates["i"]], f"{name}.g", shape),
            "o": by_o,
        }
        by_c_in = net.op("mul", [by_cell, gates["f"]], f"{name}.c_in", shape) if more else None
        parts = [
            net.op(
                f"{_activation(gate)}_backward",
                [by_gate[gate], gates[gate]],
                f"{name}.{gate}_in",
                shape,
                flops=work,
            )
            for gate in GATES
        ]
        joined = (shape[0], len(GATES) * shape[1])
        return net.op("cat", parts, f"{name}.gates", joined, flops=0), by_c_in

    def weight_gradients(self, net: Recorder, name: str, step: _Step, gates: Value) -> None:
        linear_weight_gradients(net, f"{name}.by_x", gates, step.x, self.weight_x, self.bias_x)
        linear_weight_gradients(net, f"{name}.by_h", gates, step.h_in, self.weight_h, self.bias_h)


def _activation(gate: str) -> str:
    return "tanh" if gate == "g" else "sigmoid"
