"""People at a terminal see what a verb is busy with; nobody else does."""

import io
import os
import pty
import subprocess
import sys

import pytest
from rich.console import Console

from dtrdiag.cli import activity

PROGRAM = [sys.executable, "-m", "dtrdiag"]
CLEARED = "\x1b[2K"


@pytest.fixture
def screen(monkeypatch):
    """What a terminal would be sent, without waiting for something to take long."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(activity, "progress_console", lambda: console)
    monkeypatch.setattr(activity.threading, "Timer", _AtOnce)
    return stream


class _AtOnce:
    """A timer whose time has come when it is started."""

    def __init__(self, seconds, function):
        self.start = function

    def cancel(self):
        """It was too late for that."""


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (["oom", "FAILS"], "reading fails.jsonl"),
        (["chains", "FAILS"], "reading fails.jsonl"),
        (["diff", "WORKS", "FAILS"], "reading works.jsonl"),
        (["graph", "FAILS"], "reading fails.jsonl"),
        (["replay", "FAILS", "--verify"], "reading fails.jsonl"),
        (["verify", "WORKS", "--trace", "recurrent-16"], "reading works.jsonl"),
        (["run", "chain-64", "-r", "0.5"], "reading chain-64"),
        (["traces", "info", "chain-64"], "reading chain-64"),
        (["sweep", "chain-64", "--ratios", "0.5", "-j", "1"], "runs ━"),
        (["map", "chain-64", "--from", "0.5", "--to", "0.5", "-j", "1"], "budgets"),
    ],
)
def test_it_is_said_and_taken_away_before_the_answer(answers, screen, works, fails, ask, said):
    files = {"WORKS": works, "FAILS": fails}
    answer = answers(*(files.get(word, word) for word in ask))
    assert said in screen.getvalue()
    assert screen.getvalue().endswith(CLEARED)
    assert answer.out
    assert activity._current == []


def test_it_is_taken_away_where_something_is_wrong(refuses, screen, here):
    (here / "x.jsonl").write_text('{"event": "run"}\n')
    assert refuses("oom", "x.jsonl")
    assert activity._current == []


def test_so_many_events_are_told(answers, screen, fails):
    answers("replay", fails, "--verify")
    assert ": 6,664 events" in screen.getvalue()


def test_an_answer_stays_on_standard_output(answers, screen, fails):
    assert answers("oom", fails, "--json").json["outcome"] == "oom"


def test_control_characters_in_names_of_files_are_not_obeyed(answers, screen, fails, here):
    (here / "a\x1b[31m.jsonl").write_bytes(fails.read_bytes())
    answers("oom", "a\x1b[31m.jsonl")
    assert "\x1b[31m" not in screen.getvalue()


def _on_a_terminal(arguments, environment, stdout=None):
    """What a terminal on standard error is sent, and on standard output where nothing is given."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=follower if stdout is None else stdout,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80", **environment},
    )
    os.close(follower)
    sent = b""
    try:
        while more := os.read(leader, 4096):
            sent += more
    except OSError:  # Linux says so when the other side is closed
        pass
    os.close(leader)
    out = process.communicate()[0] or b""
    assert process.returncode == 0
    return sent, out


SWEEP = [*PROGRAM, "sweep", "chain-64", "--ratios", "0.3:0.5:0.1", "-j", "1"]


def test_a_terminal_gets_a_bar_that_is_gone_at_the_end(here):
    sent, _ = _on_a_terminal(SWEEP, {})
    assert b"runs/s" in sent
    assert b"\x1b[?25l" not in sent.rpartition(b"\x1b[?25h")[2]  # the cursor is there
    assert sent.rstrip().endswith(b"3 of 3 runs were simulated.")


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"NO_COLOR": "1"}], ids=str)
def test_without_colours_there_are_none(here, environment):
    sent, _ = _on_a_terminal(SWEEP, environment)
    assert b"\x1b[3" not in sent
    assert (b"runs/s" in sent) == ("NO_COLOR" in environment)


def test_a_pipe_behind_the_answer_is_left_alone(here):
    sent, out = _on_a_terminal([*SWEEP, "--json"], {}, stdout=subprocess.PIPE)
    assert sent == b""
    assert out.startswith(b"{")
