"""A residual network for 32 x 32 images, in the manner of the ResNets for CIFAR.

Block i of `depth` blocks, counted from 0, belongs to stage s = floor(3 i / depth). A stage has
width x 2^s channels and images of 32 / 2^s pixels a side, so an activation has

    4 x batch x width x 2^s x (32 / 2^s)^2 bytes,

half as many as in the stage before. The first block of a stage other than the first halves the
image (stride 2) and projects its skip by a 1 x 1 convolution and a batch norm.

    block    conv2d 3x3, batch_norm, relu_, conv2d 3x3, batch_norm, add_ (the skip), relu_

A k x k convolution from c to d channels with p output pixels costs 2 batch p c d k^2 operations,
each of its two gradients as much again; a batch norm 5 operations per element, its backward 10.
`add_` and `relu_` are in place (MUTATE). Batch norm has three results: the output, and mean and
inverse deviation, which its backward needs. A classifier follows the mean over the pixels. The
constants, the loss and the weight gradients remain.
"""

from __future__ import annotations

from collections.abc import Callable

from dtrdiag.trace.generators.layers import Backward, classifier
from dtrdiag.trace.generators.recorder import Recorder, Value
from dtrdiag.trace.generators.registry import generator
from dtrdiag.trace.generators.roofline import Shape, elements

STAGES = 3
SIDE = 32
"""Pixels a side of an input image."""
COLOURS = 3
NORM_FLOPS = 5
"""Operations per element of a batch norm; its backward takes twice as many."""


@generator("residual-chain")
def residual_chain(net: Recorder, depth: int, width: int, batch: int) -> None:
    """Residual network for 32 x 32 images: depth blocks in three stages, in-place add and relu."""
    image = net.constant("images", (batch, COLOURS, SIDE, SIDE))
    x, stem_backward = _convolution(net, "stem", image, width, needs_input_gradient=False)
    net.mutate("relu_", x)
    stem = x
    backwards: list[Backward] = []
    for block in range(depth):
        stage = STAGES * block // depth
        x, backward = _block(net, f"b{block}", x, width << stage, SIDE >> stage)
        backwards.append(backward)
    pooled, pool_backward = _mean_pool(net, x)
    head_backward = classifier(net, pooled)
    net.backward()
    gradient = pool_backward(head_backward())
    for backward in reversed(backwards):
        gradient = backward(gradient)
    stem_backward(net.op("threshold_backward", [gradient, stem], "g.stem.relu", stem.shape))


def _block(net: Recorder, name: str, x: Value, channels: int, side: int) -> tuple[Value, Backward]:
    stride = x.shape[2] // side
    hidden, backward1 = _convolution(net, f"{name}.1", x, channels, stride=stride)
    net.mutate("relu_", hidden)
    out, backward2 = _convolution(net, f"{name}.2", hidden, channels)
    skip: Value = x
    skip_backward: Backward = _pass_on
    if channels != x.shape[1] or stride > 1:
        skip, skip_backward = _convolution(
            net, f"{name}.skip", x, channels, stride=stride, kernel=1
        )
    net.mutate("add_", out, skip)
    net.mutate("relu_", out)

    def backward(gradient: Value) -> Value:
        g = f"g.{name}"
        by_sum = net.op("threshold_backward", [gradient, out], f"{g}.sum", out.shape)
        by_hidden = backward2(by_sum)
        args = [by_hidden, hidden]
        by_norm = net.op("threshold_backward", args, f"{g}.1.relu", hidden.shape)
        by_x = backward1(by_norm)
        return net.mutate("add_", by_x, skip_backward(by_sum))

    return out, backward


def _pass_on(gradient: Value) -> Value:
    return gradient


def _convolution(
    net: Recorder,
    name: str,
    x: Value,
    channels: int,
    *,
    stride: int = 1,
    kernel: int = 3,
    needs_input_gradient: bool = True,
) -> tuple[Value, Backward]:
    """A convolution and its batch norm.

    Where the input needs no gradient, as for the images, the backward pass returns the weight's.
    """
    batch, inputs, side, _ = x.shape
    weight = net.constant(f"{name}.weight", (channels, inputs, kernel, kernel))
    shape = (batch, channels, side // stride, side // stride)
    work = 2 * elements(shape) * inputs * kernel * kernel
    convolved = net.op("conv2d", [x, weight], f"{name}.conv", shape, flops=work)
    out, norm_backward = _batch_norm(net, name, convolved)

    def backward(gradient: Value) -> Value:
        results: list[tuple[str, Shape]] = [(f"g.{name}.weight", weight.shape)]
        if needs_input_gradient:
            results.append((f"g.{name}.in", x.shape))
        args = [norm_backward(gradient), x, weight]
        by_weight, *by_input = net.call(
            "convolution_backward", args, results, flops=len(results) * work
        )
        net.accumulate(weight, by_weight)
        return by_input[0] if by_input else by_weight

    return out, backward


def _batch_norm(net: Recorder, name: str, x: Value) -> tuple[Value, Backward]:
    per_channel = (x.shape[1],)
    scale = net.constant(f"{name}.scale", per_channel)
    shift = net.constant(f"{name}.shift", per_channel)
    out, mean, invstd = net.call(
        "batch_norm",
        [x, scale, shift],
        [(name, x.shape), (f"{name}.mean", per_channel), (f"{name}.invstd", per_channel)],
        flops=NORM_FLOPS * elements(x.shape),
    )

    def backward(gradient: Value) -> Value:
        by_x, by_scale, by_shift = net.call(
            "batch_norm_backward",
            [gradient, x, scale, mean, invstd],
            [
                (f"g.{name}.conv", x.shape),
                (f"g.{name}.scale", per_channel),
                (f"g.{name}.shift", per_channel),
            ],
            flops=2 * NORM_FLOPS * elements(x.shape),
        )
        net.accumulate(scale, by_scale)
        net.accumulate(shift, by_shift)
        return by_x

    return out, backward


def _mean_pool(net: Recorder, x: Value) -> tuple[Value, Callable[[Value], Value]]:
    batch, channels, side, _ = x.shape
    pooled = net.op("mean", [x], "pool", (batch, channels, 1, 1), flops=elements(x.shape))
    flat = net.view("view", pooled, "pool.flat", (batch, channels))

    def backward(gradient: Value) -> Value:
        image = net.view("view", gradient, "g.pool", (batch, channels, 1, 1))
        return net.op("mean_backward", [image], "g.pool.in", (batch, channels, side, side))

    return flat, backward
