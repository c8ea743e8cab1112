"""What records a training step of PyTorch, and what runs one under a memory budget on real tensors.

Nothing else in dtrdiag imports torch; it comes with the extra `dtrdiag[torch]`.
"""

from typing import TYPE_CHECKING

from dtrdiag.ondemand import on_demand

if TYPE_CHECKING:
    from dtrdiag.instrumentation.pytorch.costs import CostModel, Roofline
    from dtrdiag.instrumentation.pytorch.detector import detect_writes
    from dtrdiag.instrumentation.pytorch.devices import DEVICES, Device
    from dtrdiag.instrumentation.pytorch.live import remat
    from dtrdiag.instrumentation.pytorch.measured import Measured
    from dtrdiag.instrumentation.pytorch.recording import record
    from dtrdiag.instrumentation.pytorch.step import Step
    from dtrdiag.instrumentation.pytorch.taking import record_step

__all__ = [
    "DEVICES",
    "CostModel",
    "Device",
    "Measured",
    "Roofline",
    "Step",
    "detect_writes",
    "record",
    "record_step",
    "remat",
]

__getattr__, __dir__ = on_demand(
    __name__,
    {
        "costs": ("CostModel", "Roofline"),
        "detector": ("detect_writes",),
        "devices": ("DEVICES", "Device"),
        "live": ("remat",),
        "measured": ("Measured",),
        "recording": ("record",),
        "step": ("Step",),
        "taking": ("record_step",),
    },
)
