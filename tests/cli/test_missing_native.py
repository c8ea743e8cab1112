"""Where the native engine is missing, long runs say so: once, and only if it would have helped."""

import pytest

from dtrdiag.cli import app
from dtrdiag.simulator import absence, native

NOTE = "dtrdiag: note: runs are slow because the native engine is missing (see dtrdiag doctor)\n"


@pytest.fixture(autouse=True)
def without_native(monkeypatch):
    """A fresh process without the engine, in which any time at all is long."""
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(absence, "_seconds", [0.0])
    monkeypatch.setattr(app, "_told", [])
    monkeypatch.setattr(app, "LONG_SECONDS", 1e-9)


RUN = ("run", "chain-64", "-r", "0.6")


def test_a_long_run_says_so_once(dtrdiag):
    first, again = dtrdiag(*RUN), dtrdiag(*RUN)
    assert (first.status, first.err) == (0, NOTE)
    assert (again.status, again.err) == (0, "")
    assert NOTE not in first.out


def test_a_short_run_says_nothing(dtrdiag, monkeypatch):
    monkeypatch.setattr(app, "LONG_SECONDS", 1e9)
    assert dtrdiag(*RUN).err == ""


def test_who_asked_for_the_python_engine_knows(dtrdiag):
    assert dtrdiag(*RUN, "--engine", "python").err == ""


def test_with_the_engine_there_is_nothing_to_say(dtrdiag, monkeypatch):
    monkeypatch.setattr(native, "_native", object())
    monkeypatch.setattr(absence, "_seconds", [99.0])
    assert dtrdiag("doctor").err == ""


def test_an_error_stays_one_line(dtrdiag):
    absence._seconds[0] = 99.0
    assert "chain-65" in dtrdiag("run", "chain-65").one_line()
