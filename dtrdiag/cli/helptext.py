"""How does the help of a verb look: options in groups, examples, within the terminal's width?

typer has groups of options only together with rich's markup, which we do not use: a help text is
read through pipes and pagers as well.
"""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable
from typing import Any

import typer.core

from dtrdiag.cli.examples import EXAMPLES

MAX_WIDTH = 100
"""Longer lines are hard to read."""
MIN_WIDTH = 24
_NARROW = 60
_OF_THE_RUN = (
    "--policy", "--ratio", "--budget", "--dealloc", "--overhead-limit", "--seed", "--semantics",
    "--repair", "--engine", "--policy-file",
)  # fmt: skip
_OF_THE_OUTPUT = (
    "--output", "--dot", "--svg", "--png", "--pdf", "--graphml", "--csv", "--replace", "--json",
)  # fmt: skip
OWN, RUN, OUTPUT = "Options", "Options of the run", "Output"


def context_settings() -> dict[str, Any]:
    """How typer is told the width: unlike its own, ours also suits narrow terminals."""
    width = max(MIN_WIDTH, min(shutil.get_terminal_size().columns, MAX_WIDTH))
    return {"help_option_names": ["-h", "--help"], "terminal_width": width}


class _Help:
    """What verbs and groups of verbs have in common."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and groups of options."""
        arguments, groups = [], dict[str, list[tuple[str, str]]]({OWN: [], RUN: [], OUTPUT: []})
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append((_metavar(parameter), record[1]))
            else:
                groups[group_of(parameter)].append(record)
        _write(formatter, "Arguments", arguments)
        for title, records in groups.items():
            _write(formatter, title, records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, each whole, so that it can be copied."""
        verb = ctx.command_path.partition(" ")[2]
        if verb not in EXAMPLES:
            return
        with formatter.section("Examples"):
            for what, command in EXAMPLES[verb]:
                indent = " " * formatter.current_indent
                lines = textwrap.wrap(f"# {what}", formatter.width - 4, subsequent_indent="# ")
                formatter.write("".join(f"{indent}{line}\n" for line in [*lines, command]))


class VerbHelp(_Help, typer.core.TyperCommand):
    """A verb."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words after the name, which versions of typer bracket in ways of their own."""
        arguments = [each for each in self.get_params(ctx) if each.param_type_name == "argument"]
        pieces = []
        for argument in arguments:
            name = _metavar(argument)
            pieces.append(name if argument.required or name[:1] == "[" else f"[{name}]")
        return ["[OPTIONS]", *pieces]


class GroupHelp(_Help, typer.core.TyperGroup):
    """A group of verbs."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, and the verbs with what each answers, which typer would cut."""
        super().format_options(ctx, formatter)
        listed = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, verb.get_short_help_str(1_000)) for name, verb in listed if verb is not None]
        _write(formatter, "Commands", rows)


def _metavar(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def group_of(parameter: Any) -> str:
    """The title of the group that an option belongs to."""
    name = next((name for name in parameter.opts if name.startswith("--")), "")
    if name in _OF_THE_RUN:
        return RUN
    # `whatif --force SEQ=STORAGE` is something else.
    if name in _OF_THE_OUTPUT or (name == "--force" and parameter.is_flag):
        return OUTPUT
    return OWN


def _write(formatter: Any, title: str, records: Iterable[tuple[str, str]]) -> None:
    rows = list(records)
    if not rows:
        return
    with formatter.section(title):
        # In a narrow terminal the words go below the name rather than into a thin column.
        formatter.write_dl(rows, col_max=30 if formatter.width >= _NARROW else 8)
