import csv

import networkx as nx

from dtrdiag.analyses import chains_document
from dtrdiag.log import open_log


def test_json_is_the_document_of_the_analysis(answers, works):
    found = answers("chains", works, "--json").json
    assert found["schema"] == "dtrdiag.chains/1"
    assert found == chains_document(open_log(works))
    assert len(answers("chains", works, "--top", 3, "--json").json["chains"]) == 3


def test_a_trace_with_options_is_the_same_run(answers, small):
    saved = answers("chains", small, "--json").json
    assert answers("chains", "chain-64", "-b", "8MB", "--json").json == saved


def test_people_get_sentences_and_tables(answers, works):
    out = answers("chains", works).out
    assert " under pressure hit " in out.splitlines()[0]
    for title in ("cost of rematerialisation", "steps of the schedule", "came back"):
        assert title in out
    short = answers("chains", works, "--top", 0).out
    assert "cost of rematerialisation" in short
    assert "steps of the schedule:" not in short


def test_a_run_without_pressure(answers):
    out = answers("chains", "chain-64").out
    assert out == "Nothing was evicted under pressure, so nothing was evicted again.\n"


def test_runs_that_stopped_and_logs_that_were_cut(answers, fails, here):
    assert answers("chains", fails, "--json").json["outcome"] == "oom"
    cut = here / "cut.jsonl"
    cut.write_text("".join(fails.read_text().splitlines(keepends=True)[:2000]))
    found = answers("chains", cut, "--json").json
    assert (found["outcome"], found["agrees_with_end"]) == ("incomplete", None)
    assert "The log is incomplete" in answers("chains", cut).out


def test_narrow_terminals(answers, works, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert max(map(len, answers("chains", works, "--top", 3).out.splitlines())) <= 60


def test_the_graph_in_files(answers, works, here):
    out = answers("chains", works, "--dot", "a.dot", "--graphml", "a.graphml", "--csv", "a.csv").out
    assert out.endswith("Wrote a.dot, a.graphml, a.csv.\n")
    told = answers("chains", works, "--json").json["graph"]
    graph = nx.read_graphml(here / "a.graphml", node_type=int)
    assert (len(graph), graph.number_of_edges()) == (told["storages"], told["edges"])
    rows = list(csv.DictReader((here / "a.csv").read_text().splitlines()))
    assert sum(int(row["times"]) for row in rows) == told["times"]
    assert sum(int(row["cost_ns"]) for row in rows) == told["cost_ns"]
    assert {(int(row["source"]), int(row["target"])) for row in rows} == set(graph.edges)
    costs = [int(row["cost_ns"]) for row in rows]
    assert costs == sorted(costs, reverse=True)
    text = (here / "a.dot").read_text()
    assert text.startswith("digraph displacement {")
    assert text.count(" -> ") == min(60, told["edges"])


def test_what_is_refused(refuses, works, here):
    assert refuses("chains", works, "--top", -1) == "--top must be at least 0, not -1"
    assert "--csv writes CSV" in refuses("chains", works, "--csv", "a.dot")
    (here / "a.dot").write_text("mine")
    assert "exists already" in refuses("chains", works, "--dot", "a.dot")
    assert "is named for two results" in refuses("chains", works, "--dot", "b", "--csv", "b")
    assert "--ratio does not apply to a saved log" in refuses("chains", works, "-r", "0.5")
