"""How does a package offer names whose modules are loaded when one of them is asked for?"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def on_demand(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package (PEP 562): a name's first use imports its module.

    `dir` gives all that is in the package, with the names that it offers, and imports nothing.

    Args:
        package: its `__name__`.
        names: the names that it offers, by the module in it that holds them.

    Raises:
        AttributeError: by the first that is returned, for a name that is not among them.
    """
    module_of = {name: module for module, held in names.items() for name in held}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def dir_() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return getattr_, dir_
