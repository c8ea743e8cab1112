"""Does `export` write what each tool reads, and refuse what makes no sense?"""

# mypy: no-check-untyped-defs

import csv
import gzip
import io
import json
import sys

import networkx as nx
import pytest

from dtrdiag.analyses import dependency_graph, neighbourhood
from dtrdiag.events import encode
from dtrdiag.log import open_log
from dtrdiag.rendering import trackevents
from dtrdiag.rendering.dot import graph_dot

HOSTILE = '</script><script>alert(1)</script>"><img src=x onerror=alert(1)>'


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode(), newline="")))


@pytest.fixture
def hostile(here, works):
    """A log in which every op has a name that would like to be something else."""
    events = [json.loads(line) for line in works.read_text().splitlines()]
    for event in events:
        if event["event"] == "op":
            event["name"] = HOSTILE
    path = here / "hostile.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


def test_a_timeline(answers, works, here):
    found = answers("export", works, "--to", "perfetto", "-o", "a.pftrace", "--json").json
    run = answers("run", "recurrent-16", "-b", "38359635", "--json").json
    assert found["schema"] == "dtrdiag.export/1"
    assert (found["format"], found["file"], found["complete"]) == ("perfetto", "a.pftrace", True)
    assert found["bytes"] == (here / "a.pftrace").stat().st_size
    assert (found["computes"], found["remats"]) == (run["computes"], run["remats"])
    assert sum(found["evictions"].values()) == run["evictions"]["total"]
    assert found["peak_bytes"] == run["max_memory"]


def test_people_are_told_what_it_holds_and_what_opens_it(answers, fails):
    said = answers("export", fails, "--to", "perfetto", "-o", "a.pftrace").out
    assert said.startswith("recurrent-16 under dtr over ")
    assert "had begun and had not run at the end." in said
    assert said.endswith(
        "Wrote a.pftrace. Open it at https://ui.perfetto.dev (it stays on your machine).\n"
    )


def test_a_trace_with_options_is_the_same_run(answers, small, here):
    answers("export", small, "--to", "jsonl", "-o", "a.jsonl")
    answers("export", "chain-64", "-b", "8MB", "--to", "jsonl", "-o", "b.jsonl")
    assert (here / "a.jsonl").read_bytes() == (here / "b.jsonl").read_bytes()
    assert (here / "a.jsonl").read_bytes() == small.read_bytes()


def test_parquet_is_the_log_that_run_writes(answers, here):
    options = ("recurrent-16", "-r", "0.5")
    answers("run", *options, "-o", "run.parquet")
    answers("run", *options, "-o", "run.jsonl")
    for number, source in enumerate([("run.parquet",), ("run.jsonl",), options]):
        answers("export", *source, "--to", "parquet", "-o", f"{number}.parquet")
        assert (here / f"{number}.parquet").read_bytes() == (here / "run.parquet").read_bytes()
    answers("export", "run.parquet", "--to", "jsonl", "-o", "back.jsonl.gz")
    assert gzip.decompress((here / "back.jsonl.gz").read_bytes()) == (
        (here / "run.jsonl").read_bytes()
    )


def test_graphs_are_those_of_the_analysis(answers, small, here):
    part = ("--at", 400, "--around", 10, "--hops", 1)
    answers("export", small, "--to", "graphml", "-o", "a.graphml", *part)
    answers("export", small, "--to", "dot", "-o", "a.dot", *part)
    graph = neighbourhood(dependency_graph(open_log(small), 400), 10, 1)
    back = nx.read_graphml(here / "a.graphml", node_type=int, force_multigraph=True)
    assert dict(back.nodes(data="state")) == dict(graph.nodes(data="state"))
    assert dict(back.nodes(data="bytes")) == dict(graph.nodes(data="bytes"))
    assert sorted(back.edges(data="op_name")) == sorted(graph.edges(data="op_name"))
    assert (here / "a.dot").read_text() == graph_dot(graph)


def test_a_whole_graph_with_too_many_edges_to_draw_says_so(answers, fails):
    said = answers("export", fails, "--to", "dot", "-o", "a.dot").out
    assert "take --around STORAGE --hops N" in said
    found = answers("export", fails, "--to", "graphml", "-o", "a.graphml", "--json").json
    graph = dependency_graph(open_log(fails))
    assert (found["storages"], found["edges"]) == (len(graph), graph.number_of_edges())


def test_csv_is_a_row_per_event(answers, small, here):
    assert answers("export", small, "--to", "csv", "-o", "a.csv", "--json").json["events"] == (
        len(list(open_log(small)))
    )
    rows = rows_of(here / "a.csv")
    for row, event in zip(rows, open_log(small), strict=True):
        assert row["event"] == event.kind
        assert int(row["seq"]) == event.seq


def test_a_saved_map_is_a_row_per_interval(answers, here):
    answers("map", "chain-64", "--from", "5MB", "--to", "8MB", "-o", "m.json")
    intervals = json.loads((here / "m.json").read_text())["intervals"]
    said = answers("export", "m.json", "--to", "csv", "-o", "m.csv").out
    assert said.startswith(f"{len(intervals)} intervals of budgets of chain-64, one a row.")
    rows = rows_of(here / "m.csv")
    assert [int(row["lo_bytes"]) for row in rows] == [each["lo"] for each in intervals]
    assert [row["decisions_sha256"] for row in rows] == [
        each["decisions_sha256"] for each in intervals
    ]
    answers("export", "m.json", "--to", "parquet", "-o", "m.parquet")
    answers("export", "m.parquet", "--to", "csv", "-o", "n.csv")
    assert (here / "n.csv").read_bytes() == (here / "m.csv").read_bytes()


@pytest.mark.parametrize("name", ["graphml", "dot", "csv", "jsonl", "perfetto"])
def test_hostile_names_stay_text(answers, hostile, here, name):
    graph = name in ("graphml", "dot")
    part = ("--around", 24) if graph else ()
    answers("export", hostile, "--to", name, "-o", "out", *part)
    content = (here / "out").read_bytes()
    if name == "graphml":
        back = nx.parse_graphml(content.decode())
        assert {text for _, text in back.nodes(data="op_name")} == {HOSTILE}
    elif name == "csv":
        ops = [row for row in rows_of(here / "out") if row["event"] == "op"]
        assert {row["name"] for row in ops} == {HOSTILE}
    elif name == "jsonl":
        assert [encode(e) for e in open_log(here / "out")] == [encode(e) for e in open_log(hostile)]
    elif name == "perfetto":
        # As an event's name and as an argument: tests/rendering reads them back.
        assert content.count(HOSTILE.encode()) > 1
    else:
        assert b"<script>" in content
        assert b"label=<" not in content


def test_a_log_that_was_cut_is_exported_up_to_the_cut(dtrdiag, small, here):
    lines = small.read_bytes().splitlines(keepends=True)[:100]
    (here / "cut.jsonl").write_bytes(b"".join(lines))
    for name in ("perfetto", "csv"):
        answer = dtrdiag("export", "cut.jsonl", "--to", name, "-o", f"x.{name}", "--json")
        assert answer.status == 0
        assert "the log is incomplete" in answer.err
        assert answer.json["complete"] is False


def test_a_log_that_is_damaged_leaves_no_file(refuses, small, here):
    lines = small.read_bytes().splitlines(keepends=True)
    (here / "bad.jsonl").write_bytes(b"".join([*lines[:50], b"{}\n", *lines[50:]]))
    for name in ("perfetto", "csv", "graphml"):
        assert "bad.jsonl:51" in refuses("export", "bad.jsonl", "--to", name, "-o", "x")
    assert [path.name for path in here.iterdir()] == ["bad.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x.csv"], "say what to export to: --to, one of perfetto, graphml, dot, csv"),
        (["--to", "csv"], "say where to write it: -o FILE.csv"),
        (["--to", "perfeto", "-o", "x"], 'no format "perfeto"; did you mean perfetto?'),
        (["--to", "hdf5", "-o", "x"], 'no format "hdf5"; there are perfetto, graphml'),
        (["--to", "csv", "-o", "x.parquet"], "--to csv writes .csv, which is not what x.parquet"),
        (["--to", "perfetto", "-o", "x.json"], "--to perfetto writes .pftrace or"),
        (["--to", "parquet", "-o", "x"], "--to parquet writes .parquet"),
        (["--to", "csv", "-o", "no/x.csv"], "the folder does not exist (no/x.csv)"),
        (["--to", "csv", "-o", "x.csv", "--at", 3], "--at is about graphs"),
        (["--to", "dot", "-o", "x.dot", "--hops", 3], "--hops needs a storage to start from"),
        (["--to", "dot", "-o", "x.dot", "--at", -3], "--at must be at least 0"),
        (["--to", "dot", "-o", "x.dot", "--around", 10**6], "the graph has no storage 1000000"),
        (["--to", "csv", "-o", "x.csv", "-r", "0.5"], "--ratio does not apply to a saved log"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_refused(refuses, small, arguments, message):
    assert message in refuses("export", small, *arguments)


def test_a_file_is_not_replaced_unless_told_to(answers, refuses, small, here):
    (here / "x.csv").write_text("mine")
    assert "exists already; --force replaces it (x.csv)" in refuses(
        "export", small, "--to", "csv", "-o", "x.csv"
    )
    answers("export", small, "--to", "csv", "-o", "x.csv", "--force")
    assert (here / "x.csv").read_text().startswith("event,seq,")


def test_a_map_has_no_timeline(answers, refuses):
    answers("map", "chain-64", "--from", "7MB", "--to", "8MB", "-o", "m.json")
    said = refuses("export", "m.json", "--to", "perfetto", "-o", "x.pftrace")
    assert said == "a saved map goes as csv or parquet, not perfetto (m.json)"
    said = refuses("export", "m.json", "--to", "csv", "-o", "x.csv", "-p", "lru")
    assert "does not apply to a saved map" in said


@pytest.mark.parametrize(
    ("name", "module", "file"),
    [("perfetto", trackevents._MESSAGES, "x.pftrace"), ("parquet", "pyarrow", "x.parquet")],
)
def test_what_is_not_installed_is_named(refuses, monkeypatch, small, name, module, file):
    monkeypatch.setitem(sys.modules, module, None)
    said = refuses("export", small, "--to", name, "-o", file)
    assert f"pip install 'dtrdiag[{name}]'" in said
