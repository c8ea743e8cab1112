"""Does every verb answer the same from a Parquet log as from JSON lines?"""

import shutil

import pytest

from dtrdiag.instrumentation import ParquetWriter
from dtrdiag.log import open_log


@pytest.fixture
def pair(here, fails, works):
    """Both logs under their names in both formats."""
    for name, log in (("fails", fails), ("works", works)):
        shutil.copy(log, here / f"{name}.jsonl")
        with ParquetWriter(here / f"{name}.parquet") as writer:
            for event in open_log(log):
                writer(event)
    return here


@pytest.mark.parametrize(
    "verb",
    [
        ["oom", "fails"],
        ["oom", "fails", "--json"],
        ["oom", "fails", "--json", "--dot", "x.dot", "--force"],
        ["diff", "fails", "works"],
        ["diff", "fails", "works", "--json"],
        ["graph", "fails", "--json"],
        ["graph", "fails", "--at", 300],
        ["replay", "fails"],
        ["replay", "fails", "--json", "--from", 10, "--to", 40],
        ["replay", "works", "--verify"],
        ["replay", "works", "--verify", "--json"],
        ["replay", "fails", "--at", 500],
    ],
    ids=lambda verb: " ".join(map(str, verb)),
)
@pytest.mark.usefixtures("pair")
def test_a_verb_answers_the_same(dtrdiag, verb):
    def ask(suffix):
        words = [f"{word}{suffix}" if word in ("fails", "works") else word for word in verb]
        return dtrdiag(*words)

    lines, columns = ask(".jsonl"), ask(".parquet")
    assert lines.status == 0
    assert lines.out.replace(".jsonl", ".parquet") == columns.out
    assert (lines.status, lines.err) == (columns.status, columns.err)


@pytest.mark.usefixtures("pair")
def test_formats_may_be_mixed(answers):
    same = answers("diff", "fails.jsonl", "fails.parquet", "--json").json
    assert same["first_divergence"] is None


def test_a_run_is_written_as_parquet(answers, here):
    for suffix in ("jsonl", "parquet"):
        answers("run", "recurrent-16", "-r", "0.5", "--candidates", 2, "-o", f"x.{suffix}")
    assert list(open_log(here / "x.parquet")) == list(open_log(here / "x.jsonl"))
    assert "The log is in y.parquet." in answers("run", "chain-64", "-o", "y.parquet").out


def test_an_oom_needs_an_oom(refuses, answers):
    answers("run", "chain-64", "-o", "x.parquet")
    line = refuses("oom", "x.parquet")
    assert line.startswith("the run did not stop out of memory: its outcome is ok; ")
    assert line.endswith("(x.parquet)")


def test_files_that_cannot_be_used_are_one_line(refuses, answers, here):
    answers("run", "chain-64", "-o", "x.parquet")
    content = (here / "x.parquet").read_bytes()
    (here / "cut.parquet").write_bytes(content[:-10])
    for verb in (["oom"], ["graph"], ["replay"], ["replay", "--verify"], ["diff", "x.parquet"]):
        line = refuses(*verb, "cut.parquet")
        assert line == "a Parquet file without its end: cut, or never finished (cut.parquet)"
    assert "an event log (of a run), not a trace" in refuses("run", "x.parquet")
    assert "exists already; --force replaces it" in refuses("run", "chain-64", "-o", "x.parquet")


@pytest.mark.parametrize("trace", ["recurrent-16", "residual-12"])
def test_both_engines_write_the_same_bytes(here, answers, trace):
    for engine in ("auto", "python"):
        answers("run", trace, "-r", "0.7", "--engine", engine, "-o", f"{engine}.parquet")
    assert (here / "auto.parquet").read_bytes() == (here / "python.parquet").read_bytes()
