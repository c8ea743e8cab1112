"""How is a step of a PyTorch program had twice: as a trace to simulate, and to run live?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import attrs

from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.trace.model import Trace

if TYPE_CHECKING:
    from dtrdiag.instrumentation.pytorch.step import Step
    from dtrdiag.instrumentation.pytorch.targets import Target
    from dtrdiag.instrumentation.pytorch.trials import Bench


@attrs.frozen
class Subject:
    """A step, recorded and ready to be taken.

    Attributes:
        trace: forward and backward, without an optimizer, in costs of the roofline.
        content: its log.
        on: what it was recorded on, `fake` or `real` tensors.
        because: why not on fake ones; None where it was.
        bench: takes the step on real tensors.
        medians: the same recording in costs measured on this machine; None: not asked for.
    """

    trace: Trace
    content: bytes = attrs.field(repr=False)
    on: str
    because: str | None
    bench: Bench
    medians: Trace | None


@attrs.frozen
class Making:
    """How a step is made.

    Attributes:
        target: what it is of.
        settings: sizes, or arguments of the function.
        size: of a model of the zoo.
        optimizer: its name, or None.
        device: where real tensors are, as PyTorch names it.
    """

    target: Target
    settings: Mapping[str, Any]
    size: str = "small"
    optimizer: str | None = None
    device: str = "cpu"

    def step(self) -> Step:
        """The step, made now.

        Raises:
            DtrdiagError: see `Target.build`.
        """
        import torch

        with torch.device(self.device):
            return self.target.build(self.settings, self.size, self.optimizer)


def subject_of(making: Making, *, medians: bool = False) -> Subject:
    """Record a step on fake tensors, or on real ones where that fails, and make it ready to run.

    Sizes are told by the fake kernels then, as a live run plans with them.

    Args:
        making: how the step is made.
        medians: also record it with measured costs.

    Raises:
        DtrdiagError: the target cannot be had, or cannot be recorded on real tensors either.
    """
    from dtrdiag.instrumentation.pytorch.trials import Bench

    step = making.step()
    on, because = "fake", None
    try:
        trace, content = _recorded(making, None)
    except UsageError:
        raise
    except DtrdiagError as error:
        on, because = "real", error.what
        trace, content = _recorded(making, step)
    measured = None
    if medians:
        measured, _ = _recorded(making, None if on == "fake" else step, measured=True)
    return Subject(trace, content, on, because, Bench(step), measured)


def _recorded(making: Making, step: Step | None, *, measured: bool = False) -> tuple[Trace, bytes]:
    """Forward and backward as recorded; without a step on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from dtrdiag.instrumentation.pytorch import Measured, Roofline, record
    from dtrdiag.instrumentation.pytorch.taking import clear_gradients
    from dtrdiag.instrumentation.pytorch.targets import blamed

    with ExitStack() as stack:
        if step is None:
            stack.enter_context(FakeTensorMode())
            step = making.step()
        stack.enter_context(blamed(making.target.text))
        clear_gradients(step)
        costs = Measured() if measured else Roofline()
        with record(None, step.model, costs=costs, name=step.name, sizes=step.sizes) as recorded:
            result = step.run()
        del result
        return recorded.trace, recorded.content
