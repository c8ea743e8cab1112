"""When does the replay in a terminal open, and when does it say why not?"""

import io
from types import SimpleNamespace

import pytest
from textual.app import App

from dtrdiag.cli.tui import starting
from dtrdiag.errors import AnalysisError, UsageError


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def on_terminal(monkeypatch):
    """Standard streams that pass for a terminal, and an application that only notes that it ran."""
    ran = []
    monkeypatch.setattr(App, "run", lambda self, **_: ran.append(self))
    monkeypatch.setenv("TERM", "xterm-256color")
    streams = SimpleNamespace(stdin=Terminal(), stdout=Terminal(), stderr=Terminal())
    monkeypatch.setattr(starting, "sys", streams)
    return ran


def test_the_verb_opens_one_log_or_two(on_terminal, works, fails):
    starting.replay_in_terminal([str(works)], [])
    starting.replay_in_terminal([str(works), str(fails)], [])
    assert [len(app.cursors) for app in on_terminal] == [1, 2]
    told = starting.sys.stderr.getvalue().splitlines()
    assert told[0].startswith("dtrdiag: reading ")
    assert " and " in told[1]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stdin", io.StringIO()),
            "standard input is none",
        ),
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stdout", io.StringIO()),
            "standard output is none",
        ),
        (
            lambda m: m.setattr("dtrdiag.cli.tui.starting.sys.stderr", io.StringIO()),
            "standard error is none",
        ),
        (lambda m: m.setenv("TERM", "dumb"), "TERM is dumb"),
        (
            lambda m: m.setattr("importlib.util.find_spec", lambda name: None),
            r"pip install 'dtrdiag\[tui\]'",
        ),
    ],
)
@pytest.mark.usefixtures("on_terminal")
def test_where_there_is_nothing_to_draw_on(works, monkeypatch, change, why):
    change(monkeypatch)
    with pytest.raises(UsageError, match=why):
        starting.replay_in_terminal([str(works)], [])


@pytest.mark.usefixtures("on_terminal")
def test_logs_of_different_traces_are_refused(works, small):
    with pytest.raises(AnalysisError, match="trace"):
        starting.replay_in_terminal([str(works), str(small)], [])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--tui"], "--tui needs a terminal, and standard"),
        (["--tui", "--json"], "does not go with --json"),
        (["--tui", "--verify"], "does not go with --verify"),
        (["--tui", "--at", "5"], "does not go with --at"),
        (["--tui", "--from", "5"], "does not go with --from"),
        (["--tui", "--to", "5"], "does not go with --to"),
        (["--with", "other.jsonl"], "--with goes with --tui"),
    ],
)
def test_what_does_not_go_together(refuses, small, options, why):
    assert why in refuses("replay", small, *options)
