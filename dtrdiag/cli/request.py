"""What was a sweep asked for, so that `--resume` can ask for it again?

The request is kept in the results' folder as it was given, with the digests of the files that it
names: a sweep goes on with the same traces and policies, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import attrs

from dtrdiag import __version__
from dtrdiag.cli.options import Rules, option_name
from dtrdiag.cli.values import parse_limit, parse_many, parse_ratio, parse_size
from dtrdiag.errors import InputError, UsageError
from dtrdiag.experiments.resultsfolder import REQUEST, ResultsFolder
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.trace import Trace
from dtrdiag.trace.catalog import known_traces

_TEXTS = (
    "ratios",
    "budgets",
    "dealloc",
    "overhead_limit",
    "semantics",
    "policy_file",
    "policy_file_sha256",
)


@attrs.frozen
class Request:
    """The grid of a sweep, as given; None: not given.

    Attributes:
        traces: the arguments TRACE.
        trace_sha256: digest of each trace.
        policies: names of policies, as `-p` gave them.
    """

    traces: list[str]
    trace_sha256: list[str]
    policies: list[str]
    ratios: str | None
    budgets: str | None
    dealloc: str | None
    overhead_limit: str | None
    seed: int | None
    policy_file: str | None
    policy_file_sha256: str | None
    semantics: str | None = None
    repair: list[str] | None = None

    def rules(self, engine: str | None) -> Rules:
        """The options of a run."""
        given = (self.dealloc, self.overhead_limit, self.seed, engine, self.policy_file)
        return Rules(*given, self.semantics, self.repair)

    def check(self, loaded: Sequence[Trace], policy_sha256: str | None) -> None:
        """Refuse to go on with other traces or policies.

        Raises:
            InputError: a file holds something else now.
        """
        for name, sha256, trace in zip(self.traces, self.trace_sha256, loaded, strict=True):
            if trace.sha256 != sha256:
                raise InputError("the trace is another than when the sweep began", path=name)
        if policy_sha256 != self.policy_file_sha256:
            what = "the policy file is another than when the sweep began"
            raise InputError(what, path=self.policy_file)

    def document(self) -> dict[str, Any]:
        """As JSON values; what names a file does so from any folder."""
        file = self.policy_file
        return attrs.asdict(self) | {
            "traces": [_absolute(text) for text in self.traces],
            "policy_file": None if file is None else os.path.abspath(file),
        }


def kept_request(folder: ResultsFolder | None) -> Request:
    """The request that a folder was last used for.

    Raises:
        UsageError: there is no folder, or no sweep of the command line in it.
        InputError: the request is damaged, or another version's.
    """
    if folder is None:
        raise UsageError("--resume needs -o DIR")
    document = folder.request
    if document is None or document["request"] is None:
        what = "there is no sweep to resume" if folder.path.is_dir() else "no such folder"
        raise UsageError(what, path=folder.path)
    path = folder.path / REQUEST
    if document["version"] != __version__:
        raise InputError(
            f"the sweep was begun by dtrdiag {str(document['version'])[:30]}, this is "
            f"{__version__}: without --resume it begins anew",
            path=path,
        )
    try:
        request = Request(**document["request"])
    except TypeError:
        raise InputError("damaged: no request of a sweep", path=path) from None
    if not _is_sound(request):
        raise InputError("damaged: no request of a sweep", path=path)
    return request


def check_same(given: Request, kept: Request, where: str) -> None:
    """Refuse arguments that ask for something else than the sweep to resume does.

    Args:
        given: what the arguments say; None, an empty list: nothing.
        kept: what is resumed.
        where: the folder, for messages.

    Raises:
        UsageError: they differ; names the first that does.
    """
    for name in ("trace_sha256", "policies", *_TEXTS, "seed", "repair"):
        asked, begun = getattr(given, name), getattr(kept, name)
        if name == "policy_file" or asked is None or asked == []:
            continue
        if _meaning(name, asked) != _meaning(name, begun):
            shown = {
                "trace_sha256": "TRACE",
                "policies": "-p",
                "policy_file_sha256": "--policy-file",
            }.get(name, option_name(name))
            what = f"{shown} is not what the sweep to resume was begun with"
            raise UsageError(f"{what}; without --resume it begins anew", path=where)


def _meaning(name: str, value: Any) -> Any:
    """What a value stands for: `0.5` and `0.50` are one ratio."""
    if value is None:
        return {
            "dealloc": "eager",
            "overhead_limit": parse_limit("10"),
            "seed": 0,
            "semantics": "simrd",
        }.get(name)
    if name == "ratios":
        return parse_many(value, parse_ratio, "--ratios")
    if name == "budgets":
        return parse_many(value, parse_size, "--budgets")
    if name == "repair":
        return sorted(set(value))
    return parse_limit(value) if name == "overhead_limit" else value


def _absolute(argument: str) -> str:
    if argument in {entry.name for entry in known_traces()}:
        return argument
    file, separator, member = argument.partition(ARCHIVE_SEPARATOR)
    if os.path.isfile(argument):
        return os.path.abspath(argument)
    if separator and os.path.isfile(file):
        return f"{os.path.abspath(file)}{separator}{member}"
    return argument


def _is_sound(request: Request) -> bool:
    """Whether its values have the types that they claim: it was read from a file."""
    found: dict[str, Any] = attrs.asdict(request)
    lists = [found[name] for name in ("traces", "trace_sha256", "policies")]
    lists.append([] if found["repair"] is None else found["repair"])
    return (
        all(isinstance(texts, list) for texts in lists)
        and all(isinstance(text, str) for texts in lists for text in texts)
        and len(lists[0]) == len(lists[1]) > 0
        and all(isinstance(found[name], str | None) for name in _TEXTS)
        and isinstance(found["seed"], int | None)
    )
