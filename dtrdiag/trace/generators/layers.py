"""Layers that several generated networks share: each returns its result and its backward pass."""

from __future__ import annotations

from collections.abc import Callable

from dtrdiag.trace.generators.recorder import Recorder, Value
from dtrdiag.trace.generators.roofline import Shape, elements, matmul_flops

CLASSES = 10
"""Classes of the classifier at the end of each network."""
SOFTMAX_FLOPS = 4
"""Operations per element of a log-softmax and of its backward."""

Backward = Callable[[Value], Value]
"""Gradient of the result to gradient of the input; accumulates those of the weights on the way."""


def linear(net: Recorder, name: str, x: Value, weight: Value, bias: Value) -> Value:
    """The product x W' + b, as a view of the weight (`t`) and an `addmm`.

    Args:
        net: where it is written down.
        name: name of the result.
        x: (rows, inner).
        weight: (columns, inner).
        bias: (columns,).

    Returns:
        (rows, columns).
    """
    rows, inner = x.shape
    columns = weight.shape[0]
    transposed = net.view("t", weight, f"{name}.wt", (inner, columns))
    work = matmul_flops(rows, inner, columns) + rows * columns
    return net.op("addmm", [bias, x, transposed], name, (rows, columns), flops=work)


def linear_input_gradient(net: Recorder, name: str, gradient: Value, weight: Value) -> Value:
    """Gradient of `linear` by x: one `mm`, (rows, inner)."""
    rows, columns = gradient.shape
    inner = weight.shape[1]
    work = matmul_flops(rows, columns, inner)
    return net.op("mm", [gradient, weight], name, (rows, inner), flops=work)


def linear_weight_gradients(
    net: Recorder, name: str, gradient: Value, x: Value, weight: Value, bias: Value
) -> None:
    """Gradients of `linear` by weight (`t`, `mm`) and bias (`sum`), accumulated in place."""
    rows, columns = gradient.shape
    transposed = net.view("t", gradient, f"{name}.t", (columns, rows))
    work = matmul_flops(columns, rows, weight.shape[1])
    by_weight = net.op("mm", [transposed, x], f"{name}.weight", weight.shape, flops=work)
    net.accumulate(weight, by_weight)
    by_bias = net.op("sum", [gradient], f"{name}.bias", bias.shape, flops=rows * columns)
    net.accumulate(bias, by_bias)


def classifier(net: Recorder, features: Value) -> Callable[[], Value]:
    """Linear layer, log-softmax and negative log-likelihood over `CLASSES` classes.

    The loss remains at the end of the step.

    Args:
        net: where it is written down.
        features: (batch, width).

    Returns:
        The backward pass, which returns the gradient of the features.
    """
    batch, width = features.shape
    shape = (batch, CLASSES)
    targets = net.constant("targets", (batch,))
    weight = net.constant("head.weight", (CLASSES, width))
    bias = net.constant("head.bias", (CLASSES,))
    scores = linear(net, "head.scores", features, weight, bias)
    work = SOFTMAX_FLOPS * elements(shape)
    logits = net.op("log_softmax", [scores], "head.logits", shape, flops=work)
    results: list[tuple[str, Shape]] = [("loss", ()), ("head.total_weight", ())]
    loss, total = net.call("nll_loss", [logits, targets], results, flops=elements(shape))
    net.keep(loss)

    def backward() -> Value:
        seed = net.op("ones_like", [loss], "g.loss", ())
        args = [seed, logits, targets, total]
        by_logits = net.op("nll_loss_backward", args, "g.head.logits", shape)
        args = [by_logits, logits]
        by_scores = net.op("log_softmax_backward", args, "g.head.scores", shape, flops=work)
        linear_weight_gradients(net, "g.head", by_scores, features, weight, bias)
        return linear_input_gradient(net, "g.head.features", by_scores, weight)

    return backward
