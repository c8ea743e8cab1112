"""`traces convert` writes traces in other formats; files in these serve wherever a TRACE does."""

import gzip
import json

import pytest

GRAPH = {
    "schema": "dtrdiag.graph/1",
    "name": "two-layers",
    "nodes": [
        {"name": "x", "constant": True, "memory": 4096},
        {"name": "a", "cost": 90_000, "memory": 65_536, "dependencies": ["x"]},
        {"name": "b", "cost": 4_000, "memory": 65_536, "dependencies": ["a"]},
        {"name": "c", "cost": 4_000, "memory": 65_536, "dependencies": ["b"]},
        {"name": "g", "cost": 9_000, "memory": 4_096, "dependencies": ["c", "a"]},
    ],
}


def side(*tensors):
    shapes = [[64] for _ in tensors]
    values = [[number, storage, 0, 64, 4, "cpu"] for number, storage in tensors]
    kinds = ["Tensor(float)" for _ in tensors]
    return {"values": values, "types": kinds, "shapes": shapes, "strides": [[1] for _ in tensors]}


EXECUTION = {
    "schema": "1.1.1-chakra.0.0.4",
    "nodes": [
        {
            "id": number,
            "name": name,
            "ctrl_deps": 1,
            "inputs": side(*inputs),
            "outputs": side(*outputs),
            "attrs": [
                {"name": "rf_id", "value": number},
                {"name": "op_schema", "value": schema and f"{name}(Tensor a) -> Tensor"},
            ],
        }
        for number, name, inputs, outputs, schema in (
            (1, "process", (), (), ""),
            (2, "aten::exp", [(10, 11)], [(20, 21)], "yes"),
            (5, "aten::neg", [(20, 21)], [(30, 31)], "yes"),
        )
    ],
}


@pytest.fixture
def files(here):
    (here / "graph.json").write_text(json.dumps(GRAPH, indent=1))
    (here / "et.json").write_text(json.dumps(EXECUTION, indent=1))
    return here


def test_a_graph_serves_wherever_a_trace_does(answers, files):
    facts = answers("traces", "info", "graph.json", "--json").json
    assert (facts["name"], facts["ops"], facts["peak"]) == ("two-layers", 5, 4096 + 3 * 65_536)
    run = answers("run", "graph.json", "-b", "140000", "-o", "run.jsonl", "--json").json
    assert (run["outcome"], run["remats"]) == ("ok", 1)
    assert answers("oom", "graph.json", "-b", "100000", "--json").json["outcome"] == "oom"
    assert answers("map", "graph.json", "--from", "0.9", "--to", "1").out
    assert answers("verify", "run.jsonl", "--trace", "graph.json").out


def test_there_and_back_the_run_is_the_same(answers, here):
    def decisions(trace):
        return answers("run", trace, "-r", "0.6", "--json").json["decisions_sha256"]

    done = answers("traces", "convert", "chain-64", "-o", "chain.json", "--json").json
    assert (done["schema"], done["format"]) == ("dtrdiag.convert/1", "dtrdiag.graph/1")
    assert done["bytes"] == (here / "chain.json").stat().st_size
    assert "(DTR log, " in answers("traces", "convert", "chain.json", "-o", "chain.log.gz").out
    assert gzip.decompress((here / "chain.log.gz").read_bytes()).startswith(b"{")
    answers("traces", "convert", "chain.log.gz", "-o", "chain.jsonl.zst")
    for file in ("chain.json", "chain.log.gz", "chain.jsonl.zst"):
        assert decisions(file) == decisions("chain-64")


def test_an_execution_trace_needs_costs_and_its_notes_go_to_standard_error(dtrdiag, refuses, files):
    assert "an execution trace without durations" in refuses("run", "et.json")
    done = dtrdiag("traces", "convert", "et.json", "--costs", "bytes", "-o", "et.log", "--json")
    assert done.status == 0
    assert done.json["trace"]["ops"] == 3
    assert done.err.splitlines()[0] == (
        "dtrdiag: note: et.json: 1 storage that no operator made became constants (256 B)"
    )
    assert "costs are a stand-in by bytes" in done.err
    assert dtrdiag("run", "et.log", "-b", "800").err == ""


def test_durations_from_elsewhere(dtrdiag, refuses, files):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "dur": 2, "args": {"Record function id": number}}
        for number, name in ((2, "aten::exp"), (5, "aten::neg"))
    ]
    (files / "times.json").write_text(json.dumps({"traceEvents": events}))
    done = dtrdiag("traces", "convert", "et.json", "--durations", "times.json", "-o", "et.log")
    assert done.status == 0
    assert dtrdiag("traces", "info", "et.log", "--json").json["baseline_cost"] == 4000
    (files / "et.kineto.json").write_text(json.dumps({"traceEvents": events}))
    assert dtrdiag("run", "et.json", "--json").json["baseline_cost"] == 4000
    line = refuses("traces", "convert", "et.json", "--durations", "missing", "-o", "x.log")
    assert line == "no such file (missing)"


REFUSED = {
    "no known ending": (["graph.json", "-o", "x.txt"], "a name that ends in .json, .log, .jsonl"),
    "packed alone": (["graph.json", "-o", "x.gz"], "a name that ends in .json, .log, .jsonl"),
    "what is there": (["graph.json", "-o", "et.json"], "exists already; --force replaces it"),
    "what is read": (["graph.json", "-o", "graph.json", "--force"], "is what is read"),
    "costs of a graph": (
        ["graph.json", "--costs", "bytes", "-o", "x.log"],
        "--costs is for an execution trace of PyTorch (graph.json)",
    ),
    "durations of a known trace": (
        ["chain-64", "--durations", "et.json", "-o", "x.log"],
        "--durations is for an execution trace of PyTorch (chain-64)",
    ),
    "both": (
        ["et.json", "--costs", "bytes", "--durations", "et.json", "-o", "x.log"],
        "give --durations or --costs, not both",
    ),
    "another stand-in": (["et.json", "--costs", "luck", "-o", "x.log"], "no stand-in 'luck'"),
    "nothing there": (["gone.json", "-o", "x.log"], "no such file"),
}


@pytest.mark.parametrize(("arguments", "text"), REFUSED.values(), ids=[*REFUSED])
def test_what_cannot_be_converted_is_refused(refuses, files, arguments, text):
    assert text in refuses("traces", "convert", *arguments)


@pytest.mark.parametrize("verb", ["run", "oom", "map", "traces info"])
def test_a_bad_graph_is_one_line_of_any_verb(refuses, here, verb):
    bad = {**GRAPH, "nodes": [{"name": "a", "cost": -1, "memory": 0}]}
    (here / "bad.json").write_text(json.dumps(bad))
    options = {"map": ["--from", "0.5", "--to", "1"]}.get(verb, [])
    assert refuses(*verb.split(), "bad.json", *options) == (
        "node 0 ('a'): cost is negative: -1 (bad.json)"
    )
