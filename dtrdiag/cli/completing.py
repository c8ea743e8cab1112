"""What may stand at the cursor, when a shell asks?

A press of the Tab key must be answered at once. What there is to say, the vocabulary, is gathered
from the verbs themselves once, which loads all of them, and kept in the cache; from then on nothing
but this module and the file is read.

Shells ask by calling the program with `_DTRDIAG_COMPLETE`, as those of click and typer do, and
with the words of the line in `COMP_WORDS`, a word a line, and the index of the one to complete in
`COMP_CWORD`. An answer is lines `KIND<tab>VALUE<tab>HELP`, in which KIND is `plain`, or `file` or
`dir` where the shell is to add its own files or folders.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dtrdiag import __version__
from dtrdiag.caching import keep, kept
from dtrdiag.cli import VARIABLE

SHELLS = ("bash", "zsh", "fish")
CACHE_FILE = "completion.json"
_FILES = ("FILE", "MAP", "PATH", "TRACE", ".")
_LOGS = {
    "LOG": (".jsonl", ".parquet", ".log"),
    "RUN": (".jsonl", ".parquet", ".log", ".json", ".pickle", ".zip"),
}
"""What files end in, where an argument is a log, or a log or whatever else a run may be made of."""
_COMPRESSED = (".gz", ".zst")
_BREAKS = ":="
"""Characters at which bash ends a word of its own accord."""
Vocabulary = Mapping[str, Any]
Line = tuple[str, str, str]


def complete(environment: Mapping[str, str]) -> int | None:
    """Answer a shell, if one asks; returns the exit status, None: no shell does.

    Args:
        environment: of the process.
    """
    first, _, second = environment.get(VARIABLE, "").partition("_")
    shell, what = (first, second) if first in SHELLS else (second, first)
    if shell not in SHELLS or what not in ("complete", "source"):
        return None
    if what == "source":
        from dtrdiag.cli.completion import SCRIPTS

        print(SCRIPTS[shell], end="")
        return 0
    try:
        words = environment.get("COMP_WORDS", "").split("\n")
        at = int(environment.get("COMP_CWORD", len(words) - 1))
        # An empty word at the end may have been lost on the way.
        words = [*words[: at + 1], *[""] * (at >= len(words))]
        print("\n".join(_answer(words, shell)))
        sys.stdout.flush()
    except Exception:
        # Whatever is wrong, a traceback in the middle of someone's line helps nobody.
        return 1
    return 0


def _answer(words: Sequence[str], shell: str) -> list[str]:
    current = words[-1] if words else ""
    if shell == "bash":
        words = _joined(words)
    before, incomplete = words[1:-1], words[-1] if len(words) > 1 else ""
    lines = candidates(kept_vocabulary(), before, incomplete)
    if shell == "bash":
        # bash replaces its own word, which may be the end of ours.
        cut = len(incomplete) - (0 if current.strip(_BREAKS) == "" else len(current))
        lines = [(kind, value[cut:], help) for kind, value, help in lines]
    return ["\t".join(line) for line in lines if "".join(line).isprintable()]


def _joined(words: Sequence[str]) -> list[str]:
    """The words as they stand in the line, where bash parted them at `:` and `=`."""
    found: list[str] = []
    glue = False
    for word in words:
        parts = bool(word) and not word.strip(_BREAKS)
        if found and (parts or glue):
            found[-1] += word
        else:
            found.append(word)
        glue = parts
    return found


def candidates(vocabulary: Vocabulary, before: Sequence[str], incomplete: str) -> list[Line]:
    """What may stand in place of an incomplete word; each line as in the module's text.

    Args:
        vocabulary: see `dtrdiag.cli.vocabulary`.
        before: the words between the program's name and the incomplete one.
        incomplete: the word to complete, as far as it is written.
    """
    before = [word for word in before if word != "--debug"]
    verb, rest = _verb(vocabulary, before)
    about = vocabulary["verbs"][verb]
    option, place, given = _state(about, rest)
    if option is not None:
        return list(_values(vocabulary, option["value"], incomplete))
    name, equals, value = incomplete.partition("=")
    if name.startswith("--") and equals and "--" not in rest:
        named = next((o for o in about["options"] if name in o["names"]), {"value": ""})
        lines = _values(vocabulary, named["value"] or "", value)
        # Files of the shell's own would be looked for under the whole word.
        return [(kind, f"{name}={each}", help) for kind, each, help in lines if kind == "plain"]
    if incomplete.startswith("-") and "--" not in rest:
        return list(_options(about, incomplete, given))
    if about["verbs"]:
        if place:
            return []
        listed = ((each, vocabulary["verbs"][f"{verb} {each}".strip()]) for each in about["verbs"])
        return [("plain", each, v["help"]) for each, v in listed if each.startswith(incomplete)]
    arguments = about["arguments"]
    if not arguments or (place >= len(arguments) and not arguments[-1]["many"]):
        return [] if "--" in rest else list(_options(about, incomplete, given))
    metavar = arguments[min(place, len(arguments) - 1)]["value"]
    return list(_values(vocabulary, metavar, incomplete))


def _verb(vocabulary: Vocabulary, before: Sequence[str]) -> tuple[str, list[str]]:
    """The verb that the words name, and the words after it."""
    verb, rest = "", [*before]
    while rest and rest[0] in vocabulary["verbs"][verb]["verbs"]:
        verb = f"{verb} {rest.pop(0)}".strip()
    return verb, rest


def _state(about: Mapping[str, Any], rest: Sequence[str]) -> tuple[Any, int, set[str]]:
    """The option whose value comes next, how many arguments there are, and the options given."""
    options = {name: option for option in about["options"] for name in option["names"]}
    waiting, place, given, over = None, 0, set[str](), False
    for word in rest:
        if waiting is not None:
            waiting = None
        elif word == "--" and not over:
            over = True
        elif over or not word.startswith("-") or word == "-":
            place += 1
        else:
            name, equals, _ = word.partition("=")
            option = options.get(name, {"names": [name], "value": None, "many": False})
            if not option["many"]:
                given.update(option["names"])
            waiting = option if option["value"] is not None and not equals else None
    return waiting, place, given


def _options(about: Mapping[str, Any], incomplete: str, given: set[str]) -> Iterator[Line]:
    for option in about["options"]:
        names = [name for name in option["names"] if name.startswith("--")]
        if incomplete[:1] == "-" and incomplete[:2] != "--" and len(incomplete) > 1:
            names = option["names"]
        for name in names:
            if name.startswith(incomplete) and name not in given:
                yield "plain", name, option["help"]


def _values(vocabulary: Vocabulary, metavar: str, incomplete: str) -> Iterator[Line]:
    """What a value may be, told by how help texts write it: `eager|ignore|banish`, `TRACE|FILE`."""
    parts = metavar.strip("[]").replace("...", "").split("|")
    for part in parts:
        for value, help in _named(vocabulary, part):
            if value.startswith(incomplete):
                yield "plain", value, help
    archive, separator, member = incomplete.partition("::")
    if separator and any(part.startswith(("TRACE", "RUN")) for part in parts):
        for name in _members(archive):
            if name.startswith(member):
                yield "plain", f"{archive}::{name}", ""
    elif any(kind in parts[0] for kind in _LOGS):
        yield from _logs(incomplete, parts)
        yield "dir", "", ""
    elif any(kind in part for part in parts for kind in _FILES):
        yield "file", "", ""
    elif any("DIR" in part for part in parts):
        yield "dir", "", ""


def _logs(incomplete: str, parts: Sequence[str]) -> Iterator[Line]:
    """Files whose names are those of logs; folders are the shell's to add."""
    kind = next(kind for kind in _LOGS if kind in parts[0])
    endings = _LOGS["RUN" if "MAP" in parts else kind]
    folder, slash, start = incomplete.rpartition("/")
    try:
        names = sorted(os.listdir(os.path.expanduser(f"{folder}{slash}") or "."))
    except OSError:
        return
    for name in names:
        plain = name.lower()
        for suffix in _COMPRESSED:
            plain = plain.removesuffix(suffix)
        hidden = name.startswith(".") and not start
        if name.startswith(start) and plain.endswith(endings) and not hidden:
            yield "plain", f"{folder}{slash}{name}", ""


def _named(vocabulary: Vocabulary, part: str) -> Sequence[tuple[str, str]]:
    if part.startswith(("TRACE", "RUN")):
        part = "TRACE"
    words: Sequence[tuple[str, str]] = vocabulary["words"].get(part, ())
    return words or ([(part, "")] if part.islower() else ())


def _members(archive: str) -> list[str]:
    """Names of an archive's members without their folders, a part that is enough to find them."""
    try:
        with zipfile.ZipFile(archive) as bundle:
            names = (info.filename for info in bundle.infolist() if not info.is_dir())
            return [name.rpartition("/")[2] for name in names]
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return []


def kept_vocabulary() -> Vocabulary:
    """The vocabulary of this version, out of the cache if it is there."""
    key = _key()
    try:
        known: Vocabulary = json.loads(kept(CACHE_FILE) or b"null")
        if known["key"] == key and "" in known["verbs"]:
            return known
    except (ValueError, KeyError, TypeError):
        pass
    from dtrdiag.cli.vocabulary import vocabulary

    made = {"key": key, **vocabulary()}
    keep(CACHE_FILE, json.dumps(made).encode())
    return made


def _key() -> str:
    """Tells the modules of the verbs from those of another version."""
    with os.scandir(Path(__file__).parent) as entries:
        stats = [entry.stat() for entry in entries if entry.name.endswith(".py")]
    newest = max(stat.st_mtime_ns for stat in stats)
    return f"{__version__} {sys.version_info[:2]} {len(stats)} {newest} {Path(__file__).parent}"
