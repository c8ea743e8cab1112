"""How is a step of a PyTorch program had twice: as a trace to simulate, and to run live?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import attrs

from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.trace.model import Trace

if TYPE_CHECKING:
    from dtrdiag.experiments.fidelity import Point
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
        warmup: how many steps were taken before.
    """

    trace: Trace
    content: bytes = attrs.field(repr=False)
    on: str
    because: str | None
    bench: Bench
    medians: Trace | None
    warmup: int = 0


@attrs.frozen
class Making:
    """How a step is made.

    Attributes:
        target: what it is of.
        settings: sizes, or arguments of the function.
        size: of a model of the zoo.
        optimizer: its name, or None.
        device: where real tensors are, as PyTorch names it.
        warmup: steps to take before; None: one where there is an optimizer, else none.
    """

    target: Target
    settings: Mapping[str, Any]
    size: str = "small"
    optimizer: str | None = None
    device: str = "cpu"
    warmup: int | None = None

    def step(self) -> Step:
        """The step, made now.

        Raises:
            DtrdiagError: see `Target.build`.
        """
        import torch

        with torch.device(self.device):
            return self.target.build(self.settings, self.size, self.optimizer)

    def warm_up(self, step: Step, steps: int | None) -> int:
        """Take steps before; returns how many there were.

        Raises:
            DtrdiagError: the program raised an error.
        """
        import torch

        from dtrdiag.instrumentation.pytorch.taking import warm_up
        from dtrdiag.instrumentation.pytorch.targets import blamed

        with blamed(self.target.text), torch.device(self.device):
            return warm_up(step, steps)


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
    warmup = making.warm_up(step, making.warmup)
    on, because, recorded = "fake", None, None
    try:
        recorded = _recorded(making, None)
    except UsageError:
        raise
    except DtrdiagError as error:
        on, because = "real", error.what
    # Not while that error is handled: it would be taken for the cause of another one.
    trace, content = recorded or _recorded(making, step)
    measured = None
    if medians:
        measured, _ = _recorded(making, None if on == "fake" else step, measured=True)
    return Subject(trace, content, on, because, Bench(step), measured, warmup)


def steps_wanted(making: Making, subject: Subject, points: Iterable[Point]) -> int | None:
    """How many steps are to be taken before so that the step that is recorded is as any later one.

    An optimizer that a function keeps to itself makes its state in its first step, for instance.

    Args:
        making: how the step was made.
        subject: as it was recorded.
        points: as they were compared.

    Returns:
        None where the programs part at no point, or where one more step makes no difference.
    """
    if all(point.ops is None for point in points):
        return None
    wanted = subject.warmup + 1
    try:
        later, latest = _later(making, subject, wanted)
    except DtrdiagError:
        return None
    return wanted if later == latest != subject.content else None


def _later(making: Making, subject: Subject, warmup: int) -> tuple[bytes, bytes]:
    """Logs of the step after so many, and of the one after that."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() if subject.on == "fake" else nullcontext():
        step = making.step()
        making.warm_up(step, warmup)
        return _log_of(making, step)[1], _log_of(making, step)[1]


def _recorded(making: Making, step: Step | None, *, measured: bool = False) -> tuple[Trace, bytes]:
    """Forward and backward as recorded; without a step on fake tensors."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    if step is not None:
        return _log_of(making, step, measured=measured)
    with FakeTensorMode():
        step = making.step()
        making.warm_up(step, making.warmup)
        return _log_of(making, step, measured=measured)


def _log_of(making: Making, step: Step, *, measured: bool = False) -> tuple[Trace, bytes]:
    from dtrdiag.instrumentation.pytorch import Measured, Roofline, record
    from dtrdiag.instrumentation.pytorch.taking import clear_gradients
    from dtrdiag.instrumentation.pytorch.targets import blamed

    with blamed(making.target.text):
        clear_gradients(step)
        costs = Measured() if measured else Roofline()
        with record(None, step.model, costs=costs, name=step.name, sizes=step.sizes) as recorded:
            result = step.run()
        del result
        return recorded.trace, recorded.content
