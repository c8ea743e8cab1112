"""Which verbs there are, and how whatever goes wrong in one becomes a line and an exit status.

| status | means |
|---|---|
| 0 | the question was answered (an out-of-memory run is an answer) |
| 1 | a check failed |
| 2 | bad arguments, or input or output that cannot be used |
| 70 | a fault of dtrdiag itself, `EX_SOFTWARE` of sysexits |
| 130 | interrupted |
| 141 | whoever read the output went away |
| 143 | asked to end (SIGTERM), where that keeps results |
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
import typer.main

from dtrdiag import __version__
from dtrdiag.cli.helptext import GroupHelp, VerbHelp, context_settings
from dtrdiag.cli.refusals import refusal
from dtrdiag.cli.streams import drop, drop_output, one_line, printable
from dtrdiag.cli.terminating import Terminated
from dtrdiag.errors import DtrdiagError, SubscriberError, UsageError
from dtrdiag.suggestions import no_such

PROGRAM = "dtrdiag"
BAD_INPUT, INTERNAL, INTERRUPTED, PIPE_CLOSED, TERMINATED = 2, 70, 130, 141, 143
DEBUG = "--debug"
FLAGS = (DEBUG, "--version", "-h", "--help")
"""What may stand before the verb."""
LONG_SECONDS = 5.0
"""So long may runs of the Python engine take before the missing compiled one is worth a word."""
_told: list[bool] = []
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EBADF)

VERBS: dict[str, tuple[str, str]] = {
    "quickstart": ("quickstart", "quickstart"),
    "traces": ("traces", "app"),
    "record": ("record", "record"),
    "run": ("run", "run"),
    "fidelity": ("fidelity", "fidelity"),
    "sweep": ("sweep", "sweep"),
    "map": ("map", "budget_map"),
    "ablate": ("ablate", "ablate"),
    "oom": ("oom", "oom"),
    "diff": ("diff", "diff"),
    "chains": ("chains", "chains"),
    "whatif": ("whatif", "whatif"),
    "replay": ("replay", "replay"),
    "verify": ("verify", "verify"),
    "graph": ("graph", "graph"),
    "report": ("report", "report"),
    "export": ("export", "export"),
    "reproduce": ("reproduce", "reproduce"),
    "doctor": ("doctor", "doctor"),
    "completion": ("completion", "completion"),
}
"""Every verb, in the order of the help text: its module in this package, and its name there. One is
loaded when it is asked for, because all of them together take longer than most answers."""

# The base of what typer raises for arguments it refuses. By name, because typer brought its own
# copy of click at some point, so that importing click may give another class or none.
(_REFUSED,) = (kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class _InOrder(GroupHelp):
    """Lists verbs in the order of `VERBS`; typer puts groups of verbs last."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in VERBS if name in self.commands]


def build(names: Iterable[str] = VERBS) -> typer.Typer:
    """The application with these verbs, which are loaded."""
    app = typer.Typer(
        name=PROGRAM,
        add_completion=False,
        cls=_InOrder,
        rich_markup_mode=None,
        context_settings=context_settings(),
    )
    app.callback(invoke_without_command=True)(_root)
    for name in names:
        module, attribute = VERBS[name]
        verb = getattr(importlib.import_module(f"dtrdiag.cli.{module}"), attribute)
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, name=name)
        else:
            app.command(name, cls=VerbHelp)(verb)
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show a traceback for an error; any verb takes it.")
    ] = False,
) -> None:
    """Say why a run under Dynamic Tensor Rematerialization OOMs or crawls.

    Begin with `dtrdiag quickstart`. A TRACE is a name out of `dtrdiag traces list`, a DTR log
    (plain, .gz, .zst), or archive.zip::MEMBER. A RUN is a saved event log, or a TRACE with run
    options.
    """
    if version:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


def answer(arguments: Sequence[str] | None = None) -> int:
    """Run the verb that the arguments name; returns the exit status and raises nothing."""
    given, debug = _without_debug(sys.argv[1:] if arguments is None else list(arguments))
    for stream in (sys.stdout, sys.stderr):
        # A terminal that lacks a character shows another, rather than nothing at all.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        status = _invoke(given)
        sys.stdout.flush()
        _tell_of_native()
    except BaseException as error:
        return _failed(error, given, debug)
    return status


def _invoke(arguments: list[str]) -> int:
    verb = _verb_of(arguments)
    if verb is not None and verb not in VERBS and not verb.startswith("-"):
        # Before all of them are loaded to find that out.
        raise UsageError(f"{no_such('verb', verb, VERBS)} (see {PROGRAM} --help)")
    command = typer.main.get_command(build(_asked_for(arguments)))
    try:
        with command.make_context(PROGRAM, arguments) as context:
            command.invoke(context)
    except typer.Exit as done:
        return int(done.exit_code)
    finally:
        if "dtrdiag.cli.activity" in sys.modules:
            sys.modules["dtrdiag.cli.activity"].done()
        # What was not loaded has nothing to forget.
        if "dtrdiag.experiments.policyfile" in sys.modules:
            sys.modules["dtrdiag.experiments.policyfile"].forget_policy_files()
    return 0


def _asked_for(arguments: Sequence[str]) -> Iterable[str]:
    """The verbs that the arguments need: the one they begin with, or all, to list or suggest."""
    first = _verb_of(arguments)
    if first is None and "--version" in arguments:
        return ()
    return (first,) if first in VERBS else VERBS


def _verb_of(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if argument not in FLAGS), None)


def _tell_of_native() -> None:
    """Say, once a process, that runs took long for want of the compiled engine."""
    if "dtrdiag.simulator" not in sys.modules:
        return
    from dtrdiag.simulator import seconds_without_native, why_no_native

    if why_no_native() is None or _told or seconds_without_native() < LONG_SECONDS:
        return
    _told.append(True)
    _say("note: runs are slow because the native engine is missing", f"see {PROGRAM} doctor")


def _without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """`--debug` is known before anything is parsed, and may stand on either side of the verb."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [argument for argument in arguments[:end] if argument != DEBUG]
    return kept + arguments[end:], len(kept) < end


def _failed(error: BaseException, given: Sequence[str], debug: bool) -> int:
    if isinstance(error, BrokenPipeError):
        drop_output()
        return PIPE_CLOSED
    if debug:
        lines = "".join(traceback.format_exception(error)).splitlines()
        _write("\n".join(map(printable, lines)))
    if isinstance(error, Terminated):
        _say("terminated")
        return TERMINATED
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        _say("interrupted")
        return INTERRUPTED
    if isinstance(error, SubscriberError) and isinstance(error.__cause__, DtrdiagError):
        # A writer of ours: on which event it gave up is of no use.
        error = error.__cause__
    if isinstance(error, DtrdiagError):
        _say(f"error: {error.what}", error.where)
        return error.exit_status
    if isinstance(error, _REFUSED):
        what, help_of = refusal(error, given, PROGRAM)
        _say(f"error: {what}", f"see {help_of} --help")
        return BAD_INPUT
    if isinstance(error, OSError):
        return _refused_by_system(error)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else INTERNAL
    _say(f"error: internal: {type(error).__name__}: {error}", f"{DEBUG} shows where")
    return INTERNAL


def _refused_by_system(error: OSError) -> int:
    where = error.filename
    if where is None and error.errno in _UNWRITABLE:
        # Whoever writes a file says which; what is left is an answer that print could not give.
        where = "standard output"
        drop(sys.stdout)
    _say(f"error: {error.strerror or error}", None if where is None else os.fsdecode(where))
    return BAD_INPUT


def _say(what: str, where: str | None = None) -> None:
    _write(f"{PROGRAM}: {one_line(what, where)}")


def _write(text: str) -> None:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        drop_output()
