"""`dtrdiag report`: which page the arguments ask for, what it writes, and what it refuses."""

import json
import os

import pytest

from dtrdiag.rendering.pages import page as page_module

INVERSION = ["recurrent-16", "-b", "38359635", "-b", "38359636"]
MAP = ["map", "chain-64", "--from", "0.05", "--to", "0.08", "-j", 1]


@pytest.fixture(autouse=True)
def no_bundle(monkeypatch):
    """The scripts of charts take seconds to put together, and are the same each time."""
    monkeypatch.setattr(page_module, "bundle", lambda: "/* scripts of charts */")


@pytest.fixture
def ledger(here):
    claim = {
        "id": "grows", "title": "It grows", "statement": "Overhead is above 1.",
        "kind": "observation", "source": "a notebook", "scope": "chain-64",
        "refuted_if": "", "status": "observed",
        "committed": "observed", "not_run": None, "reason": "all evidence holds", "seconds": 0.5,
        "evidence": [], "interventions": [],
    }  # fmt: skip
    document = {"schema": "dtrdiag.reproduce/1", "ok": True, "differences": [], "claims": [claim]}
    (here / "claims").mkdir()
    (here / "claims" / "results.json").write_text(json.dumps(document))
    return here / "claims"


def test_a_run(answers, small, here):
    answer = answers("report", small, "-o", "page.html")
    assert answer.out.startswith("chain-64")
    assert answer.out.endswith("): open it in a browser.\n")
    text = (here / "page.html").read_text()
    assert "<title>chain-64" in text
    assert f"dtrdiag report {small} -o F.html" in text


def test_a_trace_with_options_is_a_run(answers, small, here):
    found = answers("report", "chain-64", "-b", "8MB", "-o", "page.html", "--json").json
    assert (found["schema"], found["kind"]) == ("dtrdiag.report/1", "run")
    assert found["file"] == "page.html"
    assert found["bytes"] == os.path.getsize(here / "page.html")
    assert "memory" in found["charts"]
    assert "dtrdiag report chain-64 -b 8MB -o F.html" in (here / "page.html").read_text()


def test_a_trace_at_two_budgets_is_a_pair(answers, here):
    found = answers("report", *INVERSION, "-o", "pair.html", "--json").json
    assert found["kind"] == "pair"
    assert found["title"] == "recurrent-16 under dtr at two budgets"
    assert {"a-memory", "b-memory", "extra", "jaccard"} >= set(found["charts"]) >= {"a-memory"}
    text = (here / "pair.html").read_text()
    assert "What a chose from: the lowest scores of" in text


def test_two_logs_are_a_pair(answers, here):
    for name, budget in (("a.jsonl", "8MB"), ("b.jsonl", "9MB")):
        answers("run", "chain-64", "-b", budget, "-o", name)
    found = answers("report", "a.jsonl", "b.jsonl", "-o", "pair.html", "--json").json
    assert (found["kind"], found["title"]) == ("pair", "chain-64 under dtr at two budgets")
    assert "--candidates N" in (here / "pair.html").read_text()


def test_a_log_and_a_trace_are_a_pair(answers, small):
    found = answers("report", small, "chain-64", "-b", "9MB", "-o", "p.html", "--json").json
    assert found["kind"] == "pair"


def test_saved_maps(answers, here):
    answers(*MAP, "-o", "dtr.json")
    answers(*MAP, "-p", "lru", "-o", "lru.json")
    found = answers("report", "dtr.json", "-o", "map.html", "--json").json
    assert found["kind"] == "map"
    both = answers("report", "dtr.json", "lru.json", "-o", "maps.html", "--json").json
    assert both["kind"] == "map"
    assert both["bytes"] > found["bytes"]


def test_a_ledger_by_its_folder_or_its_file(answers, ledger, here):
    found = answers("report", ledger, "-o", "page.html", "--json").json
    assert (found["kind"], found["charts"]) == ("ledger", [])
    (ledger / "results.json").rename(here / "moved")
    again = answers("report", "moved", "-o", "page.html", "--force").out
    assert again.startswith("1 claim: 1 observed.")


def test_the_same_arguments_give_the_same_bytes(answers, here):
    for name in ("one.html", "two.html"):
        answers("report", *INVERSION, "-o", name)
    assert (here / "one.html").read_bytes() == (here / "two.html").read_bytes()


def test_one_chart_as_a_picture(answers, small, here):
    found = answers(
        "report", small, "--chart", "memory", "--svg", "m.svg", "--png", "m.png", "--json"
    ).json
    assert found["pictures"] == ["m.svg", "m.png"]
    assert found["file"] is None
    assert b"</svg>" in (here / "m.svg").read_bytes()
    assert (here / "m.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in here.glob("m.*")) == ["m.png", "m.svg"]


def test_a_broken_ledger_is_told_with_its_file(dtrdiag, ledger):
    (ledger / "results.json").write_text('{"schema": "dtrdiag.reproduce/1", "claims": [{}]}')
    said = dtrdiag("report", ledger, "-o", "p.html").one_line()
    assert "not as `dtrdiag reproduce` writes it" in said
    assert "results.json" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "RUN..."),
        (["chain-64"], "say where the page goes: -o F.html"),
        (["chain-64", "-o", "there.html"], "exists already; --force replaces it"),
        (["chain-64", "-o", "p.pdf"], "-o writes HTML"),
        (["chain-64", "-o", "no/p.html"], "the folder does not exist"),
        (["absent", "-o", "p.html"], "absent"),
        (["empty", "-o", "p.html"], "a folder, but not of a sweep"),
        (["chain-64", "-r", "0.1", "-r", "0.2", "-r", "0.3", "-o", "p.html"], "3 times"),
        (["chain-64", "-p", "dtr", "-p", "dtr", "-o", "p.html"], "two budgets or policies"),
        (["chain-64"] * 3 + ["-o", "p.html"], "about one run or two, not 3"),
        (["chain-64", "map.json", "-o", "p.html"], "a trace and a saved map together"),
        (["map.json", "claims", "-o", "p.html"], "a saved map and the results of"),
        (["claims", "claims", "-o", "p.html"], "a page is about one of these, not 2"),
        (["map.json", "-r", "0.1", "-o", "p.html"], "-r does not apply to a saved map"),
        (["claims", "--seed", "1", "-o", "p.html"], "--seed does not apply to the results of"),
        (["chain-64", "--svg", "p.svg"], "--chart ID"),
        (["chain-64", "--chart", "memory", "-o", "p.html"], "--svg FILE, --png FILE, --pdf FILE"),
        (
            ["chain-64", "-b", "8MB", "--chart", "x", "--svg", "p.svg"],
            'no chart of the page "x"; there are memory',
        ),
        (["claims", "--chart", "x", "--svg", "p.svg"], 'no chart of the page "x"; there is none'),
        (["chain-64", "--chart", "memory", "--png", "p.svg"], "--png writes PNG"),
        (["chain-64", "--chart", "memory", "--svg", "p.svg", "--png", "no/p.png"], "folder"),
    ],
)
def test_refusals(dtrdiag, ledger, here, arguments, said):
    (here / "there.html").write_text("kept")
    (here / "empty").mkdir()
    (here / "map.json").write_text('{"schema": "dtrdiag.map/1"}')
    answer = dtrdiag("report", *arguments)
    assert answer.status == 2
    assert said in answer.one_line()
    assert (here / "there.html").read_text() == "kept"
    assert not list(here.glob("p.*"))


def test_options_of_a_run_do_not_apply_to_a_log(dtrdiag, small):
    said = dtrdiag("report", small, "-r", "0.2", "-o", "p.html").one_line()
    assert "does not apply to a saved log" in said


def test_a_damaged_log_is_told_and_shown_as_far_as_it_goes(dtrdiag, small, here):
    (here / "cut.jsonl").write_bytes(small.read_bytes()[:-2000])
    answer = dtrdiag("report", "cut.jsonl", "-o", "p.html")
    assert answer.status == 0
    assert "cut.jsonl is incomplete" in answer.err
    assert "incomplete" in (here / "p.html").read_text()


def test_without_libraries_nothing_is_simulated(dtrdiag, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "vl_convert", None)
    said = dtrdiag("report", "no-such-trace", "-o", "p.html").one_line()
    assert said == "pages need jinja2 and vl-convert: pip install 'dtrdiag[report]'"


def test_a_later_part_of_a_log_is_told_with_the_log(refuses, small, here):
    lines = small.read_text().splitlines(keepends=True)
    (here / "log.jsonl.part1").write_text("".join(lines[:200]))
    (here / "log.jsonl.part2").write_text("".join(lines[200:]))
    begins = "begins in the middle of a log, with event 200; give "
    joined = f"{begins}the parts put together, from the first: log.jsonl.part1 (log.jsonl.part2)"
    assert refuses("report", "log.jsonl.part2", "-o", "x.html") == joined
    (here / "log.jsonl").write_text("".join(lines))
    for arguments in (["report", "log.jsonl.part2", "-o", "x.html"], ["oom", "log.jsonl.part2"]):
        assert refuses(*arguments) == f"{begins}the whole log: log.jsonl (log.jsonl.part2)"
    (here / "rest.jsonl").write_text("".join(lines[200:]))
    assert refuses("chains", "rest.jsonl") == f"{begins}the whole log (rest.jsonl)"


def test_a_file_of_a_sweep_is_told_with_its_folder(answers, refuses, here):
    answers("sweep", "chain-64", "-p", "dtr", "--ratios", "0.5:0.5:0.1", "-o", "kept")
    (rows,) = (here / "kept" / "runs").glob("*/*.parquet")
    for path in (rows.relative_to(here), "kept/request.json"):
        told = refuses("report", path, "-o", "x.html")
        assert told == f"only a part of a sweep, whose folder is read as a whole: kept ({path})"
