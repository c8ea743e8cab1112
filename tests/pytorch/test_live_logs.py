"""Every verb reads the log of a live run; the page about live runs shows what runs."""

# ruff: noqa: SIM117 - what a context does at its end is what is tested

import re
from pathlib import Path

import pytest

from dtrdiag.cli import main
from dtrdiag.instrumentation.pytorch import record, remat
from dtrdiag.instrumentation.pytorch.errors import RematOutOfMemoryError
from dtrdiag.instrumentation.zoo import make

PAGE = Path(__file__).parents[2] / "docs" / "live.md"
OK, OOM, LIMIT = 800_000, 390_000, 3.0


def step_of():
    return make("gpt2", "small", batch=4, length=32, dropout=0.1)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A folder with the recorded step, and logs of two live runs of it."""
    folder = tmp_path_factory.mktemp("live")
    step = step_of()
    with record(folder / "gpt.log", step.model, name="gpt") as r:
        step.run()
    options = {"trace": r.trace, "overhead_limit": LIMIT}
    step = step_of()
    with remat(OK, "dtr-eq", model=step.model, log=folder / "ok.jsonl", **options):
        step.run()
    step = step_of()
    with pytest.raises(RematOutOfMemoryError):
        with remat(OOM, "dtr-eq", model=step.model, log=folder / "oom.parquet", **options):
            step.run()
    return folder


@pytest.fixture
def dtrdiag(logs, capfd, monkeypatch):
    monkeypatch.chdir(logs)

    def call(*arguments):
        capfd.readouterr()
        status = main(list(arguments))
        out, err = capfd.readouterr()
        assert err == ""
        return status, out

    return call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("oom oom.parquet", "Out of memory at op"),
        ("chains ok.jsonl", "evictions under pressure"),
        ("graph ok.jsonl", "storages"),
        ("replay ok.jsonl --verify", "The log keeps every rule"),
        ("replay oom.parquet --verify", "The log keeps every rule"),
        ("report ok.jsonl -o page.html", "Wrote page.html"),
        ("verify ok.jsonl --trace gpt.log", "is a true record of a run of the trace"),
        ("verify oom.parquet --trace gpt.log", "is a true record of a run of the trace"),
    ],
)
def test_a_verb_reads_it(dtrdiag, arguments, said):
    status, out = dtrdiag(*arguments.split())
    assert status == 0
    assert said in out


def test_diff_finds_the_simulated_run_equal(dtrdiag):
    run = f"run gpt.log -p dtr-eq -b {OK} --overhead-limit {LIMIT} -o simulated.jsonl --force"
    assert dtrdiag(*run.split())[0] == 0
    status, out = dtrdiag("diff", "ok.jsonl", "simulated.jsonl")
    assert status == 0
    assert "decisions are equal" in out


def test_the_page_shows_what_runs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    for snippet in shown:
        exec(compile(snippet, "docs/live.md", "exec"), names)  # noqa: S102 - our own docs
    assert capsys.readouterr().out.splitlines()[:2] == ["ok True True", "True"]
    assert names["rt"].result is not None
