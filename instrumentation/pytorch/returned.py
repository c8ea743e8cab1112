"""Can what a function returned be a step, or the result of one? What can be neither is refused.

Were a model taken for a result, its making would be recorded as if that was the step.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.step import Step


@contextlib.contextmanager
def current_folder() -> Iterator[None]:
    """Modules of the folder that is current can be imported."""
    folder = os.getcwd()
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def is_function(value: Any) -> bool:
    """Whether a value is taken for a function that takes a step."""
    return inspect.isroutine(value) or isinstance(value, functools.partial)


def refuse_named(text: str, value: Any) -> None:
    """Refuse what a name on the command line stands for, unless it can be called for a step.

    Raises:
        UsageError: it is a model, a `Step` or nothing that can be called.
    """
    import torch

    if isinstance(value, torch.nn.Module):
        what = f"{text} is a model ({type(value).__name__}), and a step calls one"
        raise UsageError(f"{what}: name a function that returns a Step, or that takes the step")
    if isinstance(value, Step):
        raise UsageError(f"{text} is a Step: name a function that returns it")
    if not callable(value):
        raise UsageError(f"{text} is no function")


def refuse_returned(text: str, value: Any) -> None:
    """Refuse what is no result of a step.

    Args:
        text: whose result it is, for the message.
        value: the result.

    Raises:
        UsageError: it is a model, a generator, a function or another thing that is yet to be used.
    """
    said = _unused(value)
    if said is None and isinstance(value, (tuple, list, Mapping)):
        parts = list(value.values() if isinstance(value, Mapping) else value)
        within = [found for found in map(_unused, parts) if found is not None]
        if within and not _has_result(parts):
            said = f"a {type(value).__name__} with {within[0]}"
    if said is not None:
        raise UsageError(f"{text} returns {said}")


def watched(text: str, run: Callable[[], Any]) -> Callable[[], Any]:
    """A function that takes a step as the program would, and has its result looked at.

    Raises:
        UsageError: when it is called: see `refuse_returned`.
    """

    def checked() -> Any:
        with current_folder():
            result = run()
        refuse_returned(f"the step of {text}", result)
        return result

    return checked


def _unused(value: Any) -> str | None:
    """What a value is, and what to do about it, where nothing has been done with it yet."""
    import torch

    kind = type(value).__name__
    if isinstance(value, torch.Tensor):
        return None
    if isinstance(value, torch.nn.Module):
        if any(parameter.grad is not None for parameter in value.parameters()):
            return None
        return f"a model ({kind}), and a step calls one: return a Step, or a function that calls it"
    if isinstance(value, torch.optim.Optimizer):
        return None if value.state else f"an optimizer ({kind}): return a Step that has it"
    if isinstance(value, Step):
        return "a Step: return one Step from FUNCTION itself"
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return "a generator, of which nothing has run: return a function that takes the step"
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()  # else Python warns of it besides
        return "a coroutine, of which nothing has run: write a plain function, without async"
    if inspect.isclass(value):
        return f"a class ({value.__name__}): return a function that takes the step"
    if is_function(value):
        return "a function that was not called: return it from FUNCTION itself, or call it"
    if callable(value):
        return f"an object that can be called ({kind}): return a function that calls it"
    return None


def _has_result(parts: Iterable[Any]) -> bool:
    """Whether there is a loss, say, or its value."""
    return any(
        isinstance(part, (int, float)) or getattr(part, "grad_fn", None) is not None
        for part in parts
    )
