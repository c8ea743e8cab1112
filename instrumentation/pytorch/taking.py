"""How is a training step taken so that it is recorded the same each time?"""

from __future__ import annotations

import os
from typing import Any

from dtrdiag.instrumentation.pytorch.recording import record
from dtrdiag.instrumentation.pytorch.step import Step


def take(step: Step) -> Any:
    """Forward, backward and, where there is one, the optimizer; returns what `run()` does."""
    result = step.run()
    if step.optimizer is not None:
        step.optimizer.step()
    return result


def clear_gradients(step: Step) -> None:
    """No gradient is there, as before the first backward pass."""
    if step.model is not None:
        step.model.zero_grad(set_to_none=True)
    if step.optimizer is not None:
        step.optimizer.zero_grad(set_to_none=True)
    for tensor in step.inputs:
        if tensor.is_leaf:
            tensor.grad = None


def warm_up(step: Step, steps: int | None = None) -> int:
    """Take steps, so that an optimizer has its state, and clear gradients.

    Args:
        step: to be taken.
        steps: how many there are to be before; None: one where there is an optimizer, else none.

    Returns:
        How many there were before, those among them that were taken in making the step.
    """
    if steps is None:
        steps = 0 if step.optimizer is None else 1
    for _ in range(step.taken, steps):
        clear_gradients(step)
        take(step)
    clear_gradients(step)
    return max(step.taken, steps)


def record_step(
    step: Step, path: str | os.PathLike[str] | None = None, *, warmup: int | None = None, **how: Any
) -> record:
    """Record a step: after the warm-up, without gradients before, with the optimizer.

    What `run()` returns is there until the end, so the loss is an output of the trace.

    Args:
        step: to be taken, on real tensors, or made and recorded under one `FakeTensorMode`.
        path: see `record`.
        warmup: see `warm_up`.
        how: further arguments of `record`; name and sizes are those of the step unless given.

    Raises:
        DtrdiagError: see `record`.
    """
    warm_up(step, warmup)
    how = {"name": step.name, "sizes": step.sizes, **how}
    with record(path, step.model, step.optimizer, **how) as recorded:
        result = take(step)
    del result
    return recorded
