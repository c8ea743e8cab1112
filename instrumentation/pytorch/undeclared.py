"""Which operators write to arguments that their schema does not mark as written?

Found by comparing every argument before and after every operator, see `detector`. Keys are
overload names; values give the names of the arguments that one call writes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def _in_training(*names: str) -> Callable[[Mapping[str, Any]], frozenset[str]]:
    def written(arguments: Mapping[str, Any]) -> frozenset[str]:
        return frozenset(names) if arguments.get("training") else frozenset()

    return written


UNDECLARED_WRITES: dict[str, Callable[[Mapping[str, Any]], frozenset[str]]] = {
    "aten.native_batch_norm.default": _in_training("running_mean", "running_var"),
    "aten.cudnn_batch_norm.default": _in_training("running_mean", "running_var"),
    "aten.miopen_batch_norm.default": _in_training("running_mean", "running_var"),
    "aten.mkldnn_rnn_layer_backward.default": lambda arguments: frozenset({"workspace"}),
}
"""By overload name, what gives the names of the written arguments from the arguments by name."""

_NONE: frozenset[str] = frozenset()


def undeclared_writes(name: str, arguments: Mapping[str, Any]) -> frozenset[str]:
    """Names of the arguments that a call writes although its schema does not say so."""
    written = UNDECLARED_WRITES.get(name)
    return _NONE if written is None else written(arguments)
