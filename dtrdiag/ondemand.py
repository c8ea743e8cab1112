"""How does a package offer names whose modules are loaded when one of them is asked for?"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def on_demand(package: str, names: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A `__getattr__` for a package (PEP 562): the first use of a name imports its module.

    Args:
        package: its `__name__`.
        names: the names that it offers, by the module in it that holds them.

    Raises:
        AttributeError: by what is returned, for a name that is not among them.
    """
    module_of = {name: module for module, held in names.items() for name in held}

    def getattr_(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return getattr_
