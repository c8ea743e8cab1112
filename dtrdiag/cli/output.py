"""How does an answer reach standard output, standard error and files?

Standard output carries the answer and nothing else; what is said on the way goes to standard error.
A file is either there as a whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dtrdiag.cli.activity import done
from dtrdiag.cli.streams import one_line
from dtrdiag.errors import OutputError
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.rendering.fitting import fit

PIPE_WIDTH = 200
"""Columns where there is no terminal: tables are not squeezed, since nothing has to fit."""

Pathlike = str | os.PathLike[str]


def print_json(document: Mapping[str, Any]) -> None:
    """Write one JSON document to standard output."""
    done()
    print(json.dumps(document, indent=2, allow_nan=False))


def print_sentences(sentences: Iterable[str]) -> None:
    """Write sentences to standard output, one a line, wrapped where a width is known.

    Words are not broken, since they may be paths; indented lines, such as commands, are left whole.
    """
    console = _console()
    wrapped = console.is_terminal or "COLUMNS" in os.environ
    for sentence in sentences:
        lines = [sentence]
        if wrapped and not sentence.startswith(" "):
            lines = textwrap.wrap(
                sentence, console.width, break_long_words=False, break_on_hyphens=False
            )
        print("\n".join(lines))


def print_outline(lines: Iterable[str]) -> None:
    """Write indented lines to standard output, each wrapped within its own indentation."""
    console = _console()
    wrapped = console.is_terminal or "COLUMNS" in os.environ
    for line in lines:
        text = line.lstrip(" ")
        indent = " " * (len(line) - len(text))
        if not wrapped or not text:
            print(line)
            continue
        print(
            textwrap.fill(
                text,
                console.width,
                initial_indent=indent,
                subsequent_indent=f"{indent}  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )


def print_table(table: Table, *narrower: Table) -> None:
    """Write a table to standard output after an empty line.

    Args:
        table: of a width that suits any terminal but a narrow one.
        narrower: what to write in its place where it does not fit, widest first. Where not even the
            longest words of the last one fit side by side, each of its cells gets a line.
    """
    console = _console()
    # Captured first, because rich ends the program itself when the reader has gone.
    with console.capture() as captured:
        console.print()
        fitting = [each for each in (table, *narrower) if fit(each, console.width)]
        if fitting:
            console.print(fitting[0])
        else:
            _print_cells(console, (table, *narrower)[-1])
    print(captured.get(), end="")


def _print_cells(console: Console, table: Table) -> None:
    if table.title:
        console.print(table.title)
    for row in zip(*(column.cells for column in table.columns), strict=True):
        texts = [cell if isinstance(cell, Text) else Text(str(cell)) for cell in row]
        headers = [str(column.header).replace("-\n", "") for column in table.columns]
        if not any(headers[:1]):
            # A fact a row: its first cell is the name of the others.
            headers = [texts[0].plain] * len(texts)
            headers, texts = headers[1:], texts[1:]
        for header, text in zip(headers, texts, strict=True):
            if text.plain:
                console.print(Text(f"{header}: ").append_text(text))
        if len(texts) > 1:
            console.print()


def note(what: str) -> None:
    """Write a line to standard error."""
    done()
    print(one_line(what), file=sys.stderr)


def _console() -> Console:
    done()
    width = None
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        width = PIPE_WIDTH
    # No markup and no highlighting: names come from files, and numbers are not decoration.
    return Console(width=width, markup=False, highlight=False, emoji=False)


def check_outputs(
    paths: Iterable[Pathlike | None],
    force: bool,
    option: str = "--force",
    inputs: Iterable[str] = (),
) -> None:
    """Refuse to write any of some files, before anything is computed for them.

    Args:
        paths: of the files; None: none.
        force: files that exist may be replaced.
        option: what asks for that, for messages.
        inputs: what is read meanwhile, as given on the command line: files and members of archives,
            or names of traces.

    Raises:
        OutputError: a file exists already (unless `force`), is a directory, a pipe or a device, is
            named twice, is one of the inputs, or its folder does not exist.
    """
    seen, read = set(), [text.partition(ARCHIVE_SEPARATOR)[0] for text in inputs]
    for path in (Path(path) for path in paths if path is not None):
        if path.is_dir():
            raise OutputError("is a directory, not a file", path=path)
        # A pipe waits for a reader, who may never come.
        if path.exists() and not path.is_file():
            raise OutputError("is not a plain file", path=path)
        # A link that leads nowhere is there, too.
        if os.path.lexists(path) and not force:
            raise OutputError(f"exists already; {option} replaces it", path=path)
        # Also by a link, or under another name.
        if path.exists() and any(os.path.isfile(one) and path.samefile(one) for one in read):
            raise OutputError("is what is read, and is not written over", path=path)
        if not path.parent.is_dir():
            raise OutputError("the folder does not exist", path=path)
        if not os.access(path.parent, os.W_OK):
            raise OutputError("the folder is not writable", path=path)
        if path.absolute() in seen:
            raise OutputError("is named for two results", path=path)
        seen.add(path.absolute())


def write_file(path: Pathlike, content: bytes) -> None:
    """Write a file as a whole: under another name first, then renamed over what was there.

    Raises:
        OutputError: the file cannot be written; what was there before still is.
    """
    write_files({path: content})


def write_files(contents: Mapping[Pathlike, bytes]) -> None:
    """Write files, all of them or, where one does not fit, none.

    Raises:
        OutputError: one cannot be written; what was there before still is.
    """
    staged: list[tuple[Path, str]] = []
    path: Pathlike = ""
    try:
        for path, content in contents.items():
            target = Path(path)
            if target.exists() and not target.is_file():
                _write_to_device(target, content)
                continue
            handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
            staged.append((target, temporary))
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
            _copy_mode(target, temporary)
        while staged:
            path, temporary = staged[0]
            os.replace(temporary, path)
            staged.pop(0)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=path) from error
    finally:
        for _, temporary in staged:
            Path(temporary).unlink(missing_ok=True)


def _write_to_device(path: Path, content: bytes) -> None:
    # A pipe or device, such as /dev/stdout, is written in place: renaming would replace it.
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror or error}", path=path) from error


def _copy_mode(target: Path, temporary: str) -> None:
    # mkstemp makes files for their owner alone.
    if target.exists():
        shutil.copymode(target, temporary)
    else:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
