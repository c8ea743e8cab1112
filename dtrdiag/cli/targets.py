"""Which step of a PyTorch program do the options of a verb name?"""

from __future__ import annotations

import importlib.util
import json as jsonlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch.errors import TorchMissingError
from dtrdiag.instrumentation.pytorch.targets import Target
from dtrdiag.suggestions import no_such, quoted

SIZES, OPTIMIZERS = ("full", "small"), ("sgd", "adam")

TargetArgument = Annotated[
    str, typer.Argument(metavar="TARGET", help="zoo:MODEL, or MODULE:FUNCTION to import from here.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A size, or argument of FUNCTION; repeatable."),
]

Warmup = Annotated[
    int | None, typer.Option(metavar="N", help="Steps before (1 with an optimizer, else 0).")
]


def settings_of(texts: Sequence[str] | None) -> dict[str, Any]:
    """What `--set` gave; a value is JSON where it is well formed, a text otherwise.

    Raises:
        UsageError: one is not `KEY=VALUE`.
    """
    return dict(_setting(text) for text in texts or ())


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"--set takes KEY=VALUE, not {quoted(text)}")
    try:
        return key, jsonlib.loads(value)
    except (ValueError, RecursionError):
        return key, value


def check_choices(target: Target, size: str | None, optimizer: str | None) -> None:
    """Refuse a size or an optimizer that there is not.

    Raises:
        UsageError: there is none of that name, or the target has no sizes.
    """
    if size is not None and not target.is_zoo:
        raise UsageError("--size is for models of the zoo; --set passes arguments to a function")
    for what, value, known in (("size", size, SIZES), ("optimizer", optimizer, OPTIMIZERS)):
        if value is not None and value not in known:
            raise UsageError(no_such(what, value, known))


def check_warmup(warmup: int | None) -> None:
    """Refuse a number of steps that cannot be taken.

    Raises:
        UsageError: it is negative.
    """
    if warmup is not None and warmup < 0:
        raise UsageError(f"--warmup must not be negative, not {warmup}")


def require_torch(doing: str) -> None:
    """Refuse to go on without PyTorch.

    Args:
        doing: what needs it.

    Raises:
        TorchMissingError: it is not installed.
    """
    if importlib.util.find_spec("torch") is None:
        what = f"{doing} needs PyTorch, which is not installed: pip install 'dtrdiag[torch]'"
        raise TorchMissingError(what)
