"""What tests of the command line share: a way to call it, and two logs to ask about."""

import json
import os

import attrs
import pytest

from dtrdiag.cli import main
from dtrdiag.cli.sources import record
from dtrdiag.simulator import RunConfig, baseline_peak_bytes
from dtrdiag.trace import write_dtr_log
from dtrdiag.trace.catalog import resolve


@attrs.frozen
class Answer:
    """What a call left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    def one_line(self):
        """The error, if it is what every error should be: one line, and no answer beside it."""
        assert self.out == ""
        assert self.err.startswith("dtrdiag: error: ")
        assert self.err.count("\n") == 1
        assert self.err.endswith("\n")
        return self.err.removeprefix("dtrdiag: error: ").rstrip("\n")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dtrdiag(here, capfd, monkeypatch):
    """Calls the command line in an empty folder, without public traces, on one core.

    Workers, which take longer to start than most runs here, are there where `-j` asks for them.
    """
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.delenv("DTRDIAG_TRACES", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("DTRDIAG_CACHE", str(here.parent / "no-cache"))

    def call(*arguments):
        capfd.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Answer(status, out, err)

    return call


@pytest.fixture
def answers(dtrdiag):
    """Calls the command line and wants an answer, with nothing on standard error."""

    def call(*arguments):
        answer = dtrdiag(*arguments)
        assert (answer.status, answer.err) == (0, "")
        return answer

    return call


@pytest.fixture
def refuses(dtrdiag, here):
    """Calls the command line and wants one line with exit status 2, and no file written."""

    def call(*arguments):
        before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        answer = dtrdiag(*arguments)
        assert answer.status == 2
        after = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
        assert after == before
        return answer.one_line()

    return call


def _log(folder, name, trace, policy, budget_bytes):
    path = folder / name
    trace = resolve(trace)
    peak_bytes = baseline_peak_bytes(trace)
    record(trace, RunConfig(policy, budget_bytes, peak_bytes=peak_bytes), path)
    return path


@pytest.fixture(scope="session")
def works(tmp_path_factory):
    """Log of a run that finishes, one byte below one that does not."""
    folder = tmp_path_factory.mktemp("logs")
    return _log(folder, "works.jsonl", "recurrent-16", "dtr", 38_359_635)


@pytest.fixture(scope="session")
def fails(tmp_path_factory):
    """Log of a run that stops out of memory."""
    folder = tmp_path_factory.mktemp("logs")
    return _log(folder, "fails.jsonl", "recurrent-16", "dtr", 38_359_636)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A short log."""
    return _log(tmp_path_factory.mktemp("logs"), "small.jsonl", "chain-64", "dtr", 8_000_000)


@pytest.fixture
def chain_lines(here):
    """The lines of a small DTR log."""
    return write_dtr_log(resolve("chain-64")).splitlines()
