"""Which results does the caller of a backward operator not ask for?

Kernels and fake kernels differ in whether they make them all the same; nobody reads them, so they
count as not made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAME = "output_mask"


def mask_place(arguments: Sequence[str]) -> int | None:
    """Where an operator takes a mask of its results; None: it takes none.

    Args:
        arguments: names of its arguments in order.
    """
    return arguments.index(_NAME) if _NAME in arguments else None


def mask_of(place: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[bool] | None:
    """Which results a call asks for; None: all.

    Args:
        place: what `mask_place` gave.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
    """
    mask = args[place] if place < len(args) else kwargs.get(_NAME)
    return None if mask is None or all(mask) else tuple(mask)


def masked(result: Any, mask: Sequence[bool] | None) -> Any:
    """What was returned, without what was not asked for."""
    if mask is None or not isinstance(result, (tuple, list)):
        return result
    return tuple(part if wanted else None for part, wanted in zip(result, mask, strict=True))
