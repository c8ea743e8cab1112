"""How many floating-point operations is a dispatched operator, and which units carry them out?

A product and a sum are two; a division, a comparison or a transcendental function is one. What
`torch.utils.flop_counter` knows is counted by it, so that figures agree with those that others get.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch.utils.flop_counter import flop_registry

from dtrdiag.instrumentation.pytorch.traffic import tensors_in

Count = Callable[[Sequence[Any], Mapping[str, Any], Sequence[Any]], int]
"""From arguments, keyword arguments and flattened results to FLOPs."""


@attrs.frozen
class Formula:
    """How the FLOPs of an operator are counted."""

    count: Count
    unit: str
    """`matrix`: products of matrices; `convolution`; `vector`: anything else."""
    known: bool = True
    """False: there is no formula, and it is counted as one FLOP an element."""


def formula_of(func: Any) -> Formula:
    """The formula for an overload; one FLOP for each element where there is none."""
    namespace, _, name = str(func._schema.name).partition("::")
    if namespace not in ("aten", "mkldnn"):
        return Formula(_per_element(1), "vector", known=False)
    # An operator in place counts as the one that returns its result, unless the table has it.
    for each in (name, name[:-1] if name.endswith("_") else name):
        if (own := _OWN.get(each)) is not None:
            return own
        if (registered := _REGISTERED.get(each)) is not None:
            return registered
    if name.startswith("_foreach_"):
        return Formula(_per_element(_FOREACH.get(name.rstrip("_"), 1)), "vector")
    if torch.Tag.pointwise in func.tags or torch.Tag.reduction in func.tags:
        return Formula(_per_element(1), "vector")
    return Formula(_per_element(1), "vector", known=False)


def elements(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
    """Elements of an operator's largest operand; a list of tensors is one operand."""
    operands = [*args, *kwargs.values(), *outputs]
    return max((sum(t.numel() for t in tensors_in(each)) for each in operands), default=0)


def _prod(shape: Sequence[int]) -> int:
    return math.prod(int(size) for size in shape)


def _per_element(operations: int) -> Count:
    return lambda args, kwargs, outputs: operations * elements(args, kwargs, outputs)


def _per_output(operations: int) -> Count:
    def count(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        return operations * (int(outputs[0].numel()) if outputs else 0)

    return count


def _nothing(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
    return 0


def _from_registry(formula: Callable[..., int]) -> Count:
    def count(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        named = {name: value for name, value in kwargs.items() if name != "out"}
        return int(formula(*args, **named, out_val=outputs[0] if outputs else None))

    return count


def _convolution_backward(
    args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]
) -> int:
    """As many as forward for each of the two gradients asked for, and a sum for the bias.

    The registry counts the gradient of the weight of a grouped convolution as if it had one group:
    hundreds of times too many for depthwise ones.
    """
    grad, inputs, weight, transposed, mask = args[0], args[1], args[2], args[7], args[10]
    places = _prod((inputs if transposed else grad).shape[2:])
    forward = 2 * int(inputs.shape[0]) * places * _prod(weight.shape)
    bias = int(grad.numel()) if mask[2] else 0
    return forward * (bool(mask[0]) + bool(mask[1])) + bias


def _mkldnn_convolution(
    args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]
) -> int:
    weight, result = args[1], outputs[0]
    return 2 * int(result.shape[0]) * _prod(result.shape[2:]) * _prod(weight.shape)


def _matrix_vector(matrix: int) -> Count:
    return lambda args, kwargs, outputs: 2 * int(args[matrix].numel())


def _batch_of_products(
    args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]
) -> int:
    return 2 * int(args[1].numel()) * int(args[2].shape[2])


def _linear(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
    return 2 * int(args[0].numel()) * int(args[1].shape[0])


def _rnn_layer(times: int) -> Count:
    """One layer in one direction: every weight matrix is multiplied once for each vector."""

    def count(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        vectors = args[0].numel() // max(1, args[0].shape[-1])
        return 2 * times * int(vectors) * int(args[1].numel() + args[2].numel())

    return count


def _cudnn_rnn(times: int) -> Count:
    def count(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        vectors = args[0].numel() // max(1, args[0].shape[-1])
        matrices = sum(weight.numel() for weight in args[1] if weight.dim() == 2)
        return 2 * times * int(vectors) * int(matrices)

    return count


def _pool(args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
    window = args[1] if isinstance(args[1], (list, tuple)) else (args[1],)
    dimensions = outputs[0].dim() - 2 if len(window) == 1 and outputs[0].dim() > 2 else 1
    return int(_prod(window) ** dimensions * int(outputs[0].numel()))


def _vector(operations: int, *names: str) -> dict[str, Formula]:
    return dict.fromkeys(names, Formula(_per_element(operations), "vector"))


def _moves(*names: str) -> dict[str, Formula]:
    return dict.fromkeys(names, Formula(_nothing, "vector"))


_BY_NAME: dict[str, Callable[..., int]] = {
    str(packet._qualified_op_name).partition("::")[2]: formula
    for packet, formula in flop_registry.items()
    if isinstance(packet, torch._ops.OpOverloadPacket)
}
_REGISTERED = {
    name: Formula(_from_registry(formula), "convolution" if "conv" in name else "matrix")
    for name, formula in _BY_NAME.items()
}
_ATTENTION = _from_registry(_BY_NAME["_scaled_dot_product_flash_attention"])
_ATTENTION_BACKWARD = _from_registry(_BY_NAME["_scaled_dot_product_flash_attention_backward"])

_OWN: dict[str, Formula] = {
    "convolution_backward": Formula(_convolution_backward, "convolution"),
    "mkldnn_convolution": Formula(_mkldnn_convolution, "convolution"),
    "_convolution_pointwise": Formula(_mkldnn_convolution, "convolution"),
    "_scaled_dot_product_flash_attention_for_cpu": Formula(_ATTENTION, "matrix"),
    "_scaled_dot_product_flash_attention_for_cpu_backward": Formula(_ATTENTION_BACKWARD, "matrix"),
    "_scaled_dot_product_fused_attention_overrideable": Formula(_ATTENTION, "matrix"),
    "_scaled_dot_product_fused_attention_overrideable_backward": Formula(
        _ATTENTION_BACKWARD, "matrix"
    ),
    "_addmm_activation": _REGISTERED["addmm"],
    "_int_mm": _REGISTERED["mm"],
    "addbmm": Formula(_batch_of_products, "matrix"),
    "mv": Formula(_matrix_vector(0), "matrix"),
    "addmv": Formula(_matrix_vector(1), "matrix"),
    "dot": Formula(_matrix_vector(0), "vector"),
    "vdot": Formula(_matrix_vector(0), "vector"),
    "addr": Formula(_per_element(2), "vector"),
    "linear": Formula(_linear, "matrix"),
    "mkldnn_linear": Formula(_linear, "matrix"),
    "_linear_pointwise": Formula(_linear, "matrix"),
    "mkldnn_rnn_layer": Formula(_rnn_layer(1), "matrix"),
    "mkldnn_rnn_layer_backward": Formula(_rnn_layer(2), "matrix"),
    "_cudnn_rnn": Formula(_cudnn_rnn(1), "convolution"),  # as to precision
    "_cudnn_rnn_backward": Formula(_cudnn_rnn(2), "convolution"),
    # Norms: the mean 1, the variance 3, normalising 2, scale and shift 2.
    **_vector(
        8, "native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update",
        "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
        "cudnn_batch_norm", "native_layer_norm", "native_group_norm",
    ),
    # Normalising again 2, two sums 3, the gradient 5.
    **_vector(
        10, "native_batch_norm_backward", "batch_norm_backward", "cudnn_batch_norm_backward",
        "native_layer_norm_backward", "native_group_norm_backward",
    ),
    **_vector(4, "_fused_rms_norm", "_softmax_backward_data", "_log_softmax_backward_data"),
    **_vector(8, "_fused_rms_norm_backward"),
    # The largest, a difference, the exponential, the sum, a quotient or difference.
    **_vector(5, "_softmax", "_log_softmax", "_safe_softmax"),
    # Of one of four gates: two sums, an activation; of the state 5, for a quarter as many.
    **_vector(5, "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"),
    **_vector(8, "_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell_backward"),
    **_vector(5, "gelu", "mish"),
    **_vector(10, "gelu_backward", "mish_backward"),
    **_vector(3, "silu", "addcmul", "addcdiv", "lerp", "_fused_dropout", "native_dropout"),
    **_vector(2, "var", "std", "var_mean", "linalg_vector_norm", "norm", "sigmoid", "tanh_backward",
              "threshold_backward", "sigmoid_backward", "native_dropout_backward", "mse_loss"),
    **_vector(3, "softplus", "softplus_backward", "elu", "elu_backward", "hardswish",
              "hardswish_backward"),
    **_vector(5, "silu_backward"),
    **_vector(10, "bernoulli_", "bernoulli", "uniform_", "normal_", "exponential_", "random_",
              "rand", "randn", "randint", "rand_like", "randn_like", "randperm", "multinomial"),
    # Moments 7, their correction 3, the step 3, decay 2.
    **_vector(15, "_fused_adam_", "_fused_adamw_", "_fused_adam", "_fused_adamw"),
    **_vector(6, "_fused_sgd_", "_fused_adagrad_"),
    **_vector(1, "cumsum", "cumprod", "logsumexp", "masked_fill", "masked_fill_", "scatter_add",
              "index_add", "argmax", "argmin", "max", "min", "nll_loss_forward", "tril", "triu",
              "embedding_dense_backward", "mse_loss_backward", "avg_pool2d_backward",
              "max_pool2d_with_indices_backward", "_adaptive_avg_pool2d", "glu", "glu_backward",
              "_adaptive_avg_pool2d_backward", "_local_scalar_dense", "nll_loss_backward",
              "nll_loss2d_forward", "nll_loss2d_backward", "topk", "sort", "leaky_relu_backward",
              "hardtanh_backward"),
    **dict.fromkeys(
        ("max_pool2d_with_indices", "max_pool3d_with_indices", "avg_pool2d", "avg_pool3d"),
        Formula(_pool, "vector"),
    ),
    **dict.fromkeys(
        ("upsample_bilinear2d", "upsample_bilinear2d_backward"),
        Formula(_per_output(8), "vector"),
    ),
    **_moves(
        "cat", "stack", "clone", "copy", "_to_copy", "fill", "zero", "zeros", "ones", "full",
        "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "arange",
        "scalar_tensor", "index", "_unsafe_index", "index_select", "gather", "take", "embedding",
        "index_put", "_index_put_impl", "_unsafe_index_put", "index_copy", "index_fill", "scatter",
        "constant_pad_nd", "reflection_pad2d", "repeat", "roll", "flip", "slice_backward",
        "select_backward", "slice_scatter", "select_scatter", "unfold_backward", "split_copy",
        "split_with_sizes_copy", "upsample_nearest2d", "upsample_nearest2d_backward", "eye",
        "upsample_nearest1d", "linspace", "tril_indices", "triu_indices", "expand_copy",
        "as_strided_copy", "_foreach_copy", "_foreach_zero", "view_copy",
        "diagonal_backward", "im2col", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    ),
}  # fmt: skip
_FOREACH = {
    "_foreach_addcmul": 3,
    "_foreach_addcdiv": 3,
    "_foreach_lerp": 3,
    "_foreach_norm": 2,
}
