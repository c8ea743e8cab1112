"""Small plain definitions of the model families that recordings and live runs are shown on.

`make("resnet-32")` is a training step of one, `MODELS` lists them. They come with the extra
`dtrdiag[torch]`; docs/zoo.md says what each one is good for.
"""

from typing import TYPE_CHECKING

from dtrdiag.ondemand import on_demand

if TYPE_CHECKING:
    from dtrdiag.instrumentation.zoo.models import MODELS, Model, make, model

__all__ = ["MODELS", "Model", "make", "model"]

__getattr__, __dir__ = on_demand(__name__, {"models": ("MODELS", "Model", "make", "model")})
