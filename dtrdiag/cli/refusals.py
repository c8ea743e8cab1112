"""What is said of arguments that cannot be parsed, whichever version of typer refused them?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dtrdiag.suggestions import no_such, one_of, quoted

_TOO_MANY = re.compile(r"unexpected extra arguments? ?(?:\(s\))? \((.*)\)", re.DOTALL)
_NO_VALUE = re.compile(r"option '?([^' ]+)'? requires an argument")
_NO_COMMAND = re.compile(r"no such command '(.*?)'", re.DOTALL)


def refusal(error: Any, arguments: Sequence[str], program: str) -> tuple[str, str]:
    """What typer refused, in our words where they are better, and the command whose help says more.

    Args:
        error: typer's, whatever its class is called and wherever it is kept.
        arguments: that were refused.
        program: its name.
    """
    context = getattr(error, "ctx", None)
    kind = _KINDS.get(type(error).__name__, _other)
    what = kind(error, arguments)
    if context is not None:
        return what, context.command_path
    # An error of the parser itself does not know its command.
    verb = next((argument for argument in arguments if not argument.startswith("-")), "")
    return what, f"{program} {verb}".strip()


def _plain(error: Any) -> str:
    what = error.format_message().strip().rstrip(".")
    return str(what[:1].lower() + what[1:])


def _other(error: Any, arguments: Sequence[str]) -> str:
    what = _plain(error)
    if (found := _NO_COMMAND.match(what)) and getattr(error, "ctx", None) is not None:
        return no_such("verb", found[1], error.ctx.command.list_commands(error.ctx))
    if found := _TOO_MANY.search(what):
        return f"one argument too many: {quoted(found[1])}"
    if found := _NO_VALUE.search(what):
        return f"option {found[1]} needs a value"
    return what


def _no_option(error: Any, arguments: Sequence[str]) -> str:
    given, context = str(error.option_name), getattr(error, "ctx", None)
    if context is None:
        return no_such("option", given, (), "")
    if context.parent is None and context.command.list_commands(context) and len(arguments) > 1:
        return f"option {given} before the verb: it goes after it"
    return no_such("option", given, options_of(context.command), "")


def options_of(command: Any) -> list[str]:
    """The options of a command that have a long name, in order of its help."""
    names = (name for parameter in command.params for name in parameter.opts)
    return [*(name for name in names if name.startswith("--")), "--help"]


def _bad_value(error: Any, arguments: Sequence[str]) -> str:
    what = _plain(error)
    parameter = getattr(error, "param", None)
    wanted = {"integer": "a whole number", "number": "a number", "float": "a number"}
    found = next((words for word, words in wanted.items() if f"valid {word}" in what), None)
    if parameter is None or found is None:
        return what
    given = _given(parameter.opts, arguments)
    name = one_of(parameter.opts[-1:])
    return f"{name} must be {found}" + ("" if given is None else f", not {quoted(given)}")


def _given(names: Iterable[str], arguments: Sequence[str]) -> str | None:
    """The value that an option was given, if it can be told."""
    for name in names:
        for at, argument in enumerate(arguments):
            if argument == name and at + 1 < len(arguments):
                return arguments[at + 1]
            if argument.startswith(f"{name}="):
                return argument.partition("=")[2]
    return None


_KINDS: dict[str, Callable[[Any, Sequence[str]], str]] = {
    "NoSuchOption": _no_option,
    "BadParameter": _bad_value,
}
