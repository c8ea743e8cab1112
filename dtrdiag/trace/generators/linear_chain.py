"""The uniform linear chain on which the DTR paper proves its bounds (arXiv 2006.09616, section 3).

With N = depth and the unit u = 4 x batch x width bytes:

    forward     t_i = f(t_{i-1})            i = 1 .. N; t_0 is the input, a constant
    backward    g_N = b(t_{N-1})            the gradient of the last layer's input
                g_i = b(t_{i-1}, g_{i+1})   i = N-1 .. 1

All 2 N operators have size u and the same cost, that of an elementwise kernel that reads u and
writes u. t_N is released as soon as it is made, t_{i-1} and g_{i+1} after g_i. The input and g_1,
its gradient, remain; there are no weights. Unlimited, memory peaks at (N + 1) u.
"""

from __future__ import annotations

from dtrdiag.trace.generators.recorder import Recorder, Value
from dtrdiag.trace.generators.registry import generator
from dtrdiag.trace.generators.roofline import elements, size_bytes


@generator("linear-chain")
def linear_chain(net: Recorder, depth: int, width: int, batch: int) -> None:
    """Uniform linear chain of the DTR paper: one size, one cost, no weights; depth layers."""
    shape = (batch, width)

    def unit(op: str, args: list[Value], name: str) -> Value:
        (result,) = net.call(
            op, args, [(name, shape)], flops=elements(shape), moved_bytes=2 * size_bytes(shape)
        )
        return result

    activations = [net.constant("t0", shape)]
    for layer in range(1, depth + 1):
        activations.append(unit("layer", [activations[-1]], f"t{layer}"))
    net.backward()
    gradient = unit("layer_backward", [activations[depth - 1]], f"g{depth}")
    for layer in range(depth - 1, 0, -1):
        gradient = unit("layer_backward", [activations[layer - 1], gradient], f"g{layer}")
    net.keep(gradient)
