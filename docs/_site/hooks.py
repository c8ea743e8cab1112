"""What does the site have that no file under docs/ says?

The pages of the reference, made from the program itself when the site is built: the help of each
verb, the tables and the JSON Schema of events, and a page for each public package, in which
mkdocstrings puts the docstrings. And links that lead out of docs/ become the names of what they
lead to, because the site has no repository around it.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ("iframe-worker.js", "site.css", "site.js")
WIDTH = 82
"""Columns of a verb's help."""

PACKAGES = {
    "analyses": "dtrdiag.analyses",
    "log": "dtrdiag.log",
    "events": "dtrdiag.events",
    "hooks": "dtrdiag.hooks",
    "instrumentation": "dtrdiag.instrumentation",
    "simulator": "dtrdiag.simulator",
    "trace": "dtrdiag.trace",
    "experiments": "dtrdiag.experiments",
    "errors": "dtrdiag.errors",
}
"""The pages of the Python reference, and what is on each."""
ALSO = {
    "dtrdiag.trace": ("dtrdiag.trace.catalog.resolve",),
    "dtrdiag.experiments": (
        "dtrdiag.experiments.budget_map.Mapper",
        "dtrdiag.experiments.outcomes.Outcomes",
        "dtrdiag.experiments.policyfile.load_policy_file",
    ),
}
"""What is public in modules of a package that the package itself does not hand on."""
OUTSIDE = {"dtrdiag/events/schema-1.1.json": "reference/schema-1.1.json"}
"""Files of the repository that the site has too."""
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)(#[^)\s]*)?\)")
_sources = tempfile.TemporaryDirectory(prefix="dtrdiag-docs-")


@event_priority(100)  # before mkdocstrings, which looks at its paths once
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Let mkdocstrings read the sources of this checkout in the shape in which they are installed.

    They are copied, since it looks for modules by folder and does not follow links.
    """
    tree = Path(_sources.name) / "dtrdiag"
    if not tree.exists():
        for folder, inside in (
            (ROOT / "dtrdiag", ""),
            (ROOT / "analyses", "analyses"),
            (ROOT / "instrumentation", "instrumentation"),
        ):
            for source in folder.rglob("*.py"):
                copy = tree / inside / source.relative_to(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, copy)
    handlers = config.plugins["mkdocstrings"].config.handlers
    handlers["python"]["paths"] = [_sources.name]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made at build time."""
    made = {
        "reference/help.md": verbs_page(),
        "reference/schema.md": schema_page(),
        "reference/schema-1.1.json": schema_json(),
        **{f"reference/{page}.md": package_page(name) for page, name in PACKAGES.items()},
        **{f"assets/{name}": (ROOT / "docs/_site" / name).read_text() for name in ASSETS},
    }
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that lead out of docs/ become names, or lead to the site's own copy."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def changed(found: re.Match[str]) -> str:
        words, target, _ = found.groups()
        place = Path(os.path.normpath(folder / target))
        if place.is_relative_to(ROOT / "docs"):
            return found.group()
        name = place.relative_to(ROOT).as_posix()
        if name in OUTSIDE:
            here = os.path.relpath(ROOT / "docs" / OUTSIDE[name], folder)
            return f"[{words}]({Path(here).as_posix()})"
        return f"`{name}`" if words.strip("`/") == name else f"{words} (`{name}`)"

    return LINK.sub(changed, markdown)


def on_post_build(config: MkDocsConfig) -> None:
    """What was linked for the docstrings is not needed any more."""
    shutil.rmtree(_sources.name, ignore_errors=True)


def verbs_page() -> str:
    """Every verb's help, as the terminal shows it."""
    import typer.main

    from dtrdiag.cli.app import PROGRAM, VERBS, build

    root = typer.main.get_command(build())
    parts = [
        "# Every option\n",
        "What `dtrdiag VERB --help` says, verb by verb. What the answers mean, and their fields"
        " under `--json`, is in [Verbs and their answers](../cli.md).\n",
        f"## {PROGRAM}\n\n{_help(root, PROGRAM)}",
    ]
    for verb in VERBS:
        command = root.commands[verb]  # type: ignore[attr-defined]
        parts.append(f"## {verb}\n\n{_help(command, f'{PROGRAM} {verb}')}")
        for name, inner in getattr(command, "commands", {}).items():
            parts.append(f"### {verb} {name}\n\n{_help(inner, f'{PROGRAM} {verb} {name}')}")
    return "\n".join(parts)


def _help(command: Any, name: str) -> str:
    context = command.make_context(name, [], resilient_parsing=True, terminal_width=WIDTH)
    return f"```text\n{command.get_help(context).strip()}\n```\n"


def schema_page() -> str:
    """The fields of each kind of event, and the JSON Schema."""
    from dtrdiag.events import EVENT_TYPES, SCHEMA, markdown_tables

    parts = [
        "# Events, as a schema\n",
        f"Version `{SCHEMA}`, made from the records in `dtrdiag.events`. What each event does to"
        " the state, and in which order they come, is in [The event log](../events.md)."
        " A program that checks logs can use the [JSON Schema](schema-1.1.json).\n",
    ]
    for kind, table in markdown_tables().items():
        parts.append(f"## `{kind}`\n\n{summary(EVENT_TYPES[kind])}\n\n{table}\n")
    return "\n".join(parts)


def schema_json() -> str:
    """The JSON Schema of events, as `python -m dtrdiag.events` prints it."""
    from dtrdiag.events import json_schema

    return json.dumps(json_schema(), indent=2) + "\n"


def summary(what: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((what.__doc__ or "").strip().partition("\n\n")[0].split())


def package_page(name: str) -> str:
    """A package or module: its opening words, then each public name in the module that has it."""
    package = importlib.import_module(name)
    parts = [f"# {name}\n", f"{(package.__doc__ or '').strip()}\n"]
    modules = public_names(package)
    said_first = [
        m for m in modules if any(f"`{n}`" in (package.__doc__ or "") for n in modules[m])
    ]
    for module in dict.fromkeys([*said_first, *modules]):
        names = modules[module]
        if module != name:
            said = summary(importlib.import_module(module))
            parts.append(f"## {module.removeprefix('dtrdiag.')}\n\n{said}\n")
        level = 2 if module == name else 3
        for each in names:
            parts.append(f"::: {module}.{each}\n    options:\n      heading_level: {level}\n")
    return "\n".join(parts)


def public_names(package: ModuleType) -> dict[str, list[str]]:
    """For each module that defines any of a package's public names: these, in their order."""
    listed = getattr(package, "__all__", None)
    if listed is None:
        listed = [name for name in vars(package) if _is_own(package, name)]
    found: dict[str, list[str]] = {}
    for name in listed:
        value = getattr(package, name)
        module = getattr(value, "__module__", None) or ""
        if not module.startswith("dtrdiag.") or getattr(value, "__name__", None) is None:
            continue  # a constant: the pages in words have them
        found.setdefault(module, []).append(value.__name__)
    for path in ALSO.get(package.__name__, ()):
        module, _, name = path.rpartition(".")
        found.setdefault(module, []).append(name)
    return found


def _is_own(module: ModuleType, name: str) -> bool:
    value = getattr(module, name)
    own = getattr(value, "__module__", None) == module.__name__
    return own and not name.startswith("_")
