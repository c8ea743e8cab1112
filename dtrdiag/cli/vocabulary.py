"""Which words does the command line know: verbs, their options, and names that values can have?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer.main

from dtrdiag.cli.app import PROGRAM, build
from dtrdiag.errors import DtrdiagError
from dtrdiag.experiments.ablation import GROUPS
from dtrdiag.experiments.claims import own_ledger, read_ledger
from dtrdiag.interventions import REPAIRS
from dtrdiag.simulator import policies
from dtrdiag.trace.catalog import known_traces

Words = list[tuple[str, str]]


def vocabulary() -> dict[str, Any]:
    """All words as plain JSON values.

    `verbs` has an entry for each verb, that of the program itself under an empty name: `help`, the
    names of further `verbs`, `options` (`names`, how the help text writes the `value`, null for a
    flag, `many` for one that can be given again, `help`) and `arguments` (`value`, `many`). `words`
    has the names that a value can have, with a word on each, by how help texts write the value.
    """
    verbs: dict[str, Any] = {}
    command = typer.main.get_command(build())
    with command.make_context(PROGRAM, [], resilient_parsing=True) as context:
        _add(verbs, "", command, context)
    named: dict[str, Callable[[], Words]] = {
        "TRACE": lambda: [(each.name, each.description) for each in known_traces()],
        "POLICY": lambda: [(each.name, each.doc) for each in policies()],
        "DEFECT": lambda: _plain(REPAIRS),
        "ID": lambda: [(claim.id, claim.title) for claim in read_ledger(own_ledger()).claims],
    }
    words = {name: _or_none(make) for name, make in named.items()}
    words["POLICY"] += [(name, "several policies") for name in GROUPS]
    return {"verbs": verbs, "words": words}


def _plain(names: Iterable[str]) -> Words:
    return [(name, "") for name in names]


def _or_none(make: Callable[[], Words]) -> Words:
    try:
        return make()
    except DtrdiagError:
        return []  # whoever names such a thing is told why


def _add(verbs: dict[str, Any], name: str, command: Any, context: Any) -> None:
    below = command.list_commands(context) if hasattr(command, "list_commands") else []
    options, arguments = [], []
    for parameter in command.get_params(context):
        value = None if getattr(parameter, "is_flag", False) else str(parameter.metavar or "")
        if parameter.param_type_name == "argument":
            arguments.append({"value": value or "", "many": parameter.nargs == -1})
        else:
            many = bool(parameter.multiple)
            help = (parameter.help or "").partition(":")[0].rstrip(".")
            names = [*parameter.opts]
            options.append({"names": names, "value": value, "many": many, "help": help})
    verbs[name] = {
        "help": command.get_short_help_str(100).rstrip("."),
        "verbs": below,
        "options": options,
        "arguments": arguments,
    }
    for each in below:
        _add(verbs, f"{name} {each}".strip(), command.get_command(context, each), context)
