"""All models of the zoo: importing this registers them."""

from __future__ import annotations

from dtrdiag.instrumentation.pytorch.errors import TorchMissingError

try:
    import torch  # noqa: F401 - asked for here, so that what is missing is told by name
except ImportError:
    raise TorchMissingError(
        "the models need PyTorch, which is not installed: pip install 'dtrdiag[torch]'"
    ) from None

from dtrdiag.instrumentation.zoo import (
    diffusion,
    gpt,
    lstm,
    mamba,
    moe,
    resnet,
    transformer,
    treelstm,
    unet,
)
from dtrdiag.instrumentation.zoo.registry import MODELS, Model, make, model

__all__ = [
    "MODELS",
    "Model",
    "diffusion",
    "gpt",
    "lstm",
    "make",
    "mamba",
    "model",
    "moe",
    "resnet",
    "transformer",
    "treelstm",
    "unet",
]
