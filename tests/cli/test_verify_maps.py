"""verify on a saved map: what is run again, what is derived anew, what is refused."""

import json

import pytest
from pyarrow import parquet

from dtrdiag.experiments.map_check import check_map
from dtrdiag.experiments.map_files import read_map
from dtrdiag.trace.catalog import resolve

CHAIN, RECURRENT = ("--trace", "chain-64"), ("--trace", "recurrent-16")


@pytest.fixture
def chain_map(answers, here):
    answers("map", "chain-64", "--from", "0.2", "--to", "0.25", "-j", "1", "-o", "map.json")
    return here / "map.json"


def with_interval(path, at, **changes):
    """Alter one interval of a map in place."""
    document = json.loads(path.read_text())
    document["intervals"][at].update(changes)
    path.write_text(json.dumps(document))
    return document["intervals"]


def test_our_maps_are_accepted(answers, chain_map):
    found = answers("verify", chain_map, *CHAIN, "--scores", "--json").json
    assert (found["ok"], found["complete"], found["problems"]) == (True, True, [])
    assert found["sampled"] == found["intervals"] > 2
    sample = ("--sample", "2", "--seed", "5")
    few = answers("verify", chain_map, *CHAIN, *sample, "--json").json
    assert (few["ok"], few["sampled"], few["seed"]) == (True, 2, 5)
    assert few["events"] < found["events"]
    said = answers("verify", chain_map, *CHAIN, *sample).out
    assert "2 of " in said
    assert "It holds every budget of its range" in said


def test_a_map_in_parquet_is_accepted(answers, here):
    asked = ("map", "chain-64", "--from", "0.2", "--to", "0.22", "-j", "1", "-o", "map.parquet")
    answers(*asked)
    assert answers("verify", "map.parquet", *CHAIN, "--json").json["ok"]


def test_a_sampled_map_says_that_it_has_gaps(answers):
    asked = ("map", "chain-64", "--from", "0.2", "--to", "0.4", "--resolution", "0.1", "-j", "1")
    answers(*asked, "-o", "map.json")
    found = answers("verify", "map.json", *CHAIN, "--json").json
    assert (found["ok"], found["complete"]) == (True, False)
    assert "It was sampled" in answers("verify", "map.json", *CHAIN).out


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("outcome", "oom", "end"),
        ("remats", 1, "counts"),
        ("decisions_sha256", "0" * 64, "digest"),
    ],
)
def test_a_wrong_interval_is_found_by_running_it(dtrdiag, chain_map, field, value, rule):
    with_interval(chain_map, 1, **{field: value})
    found = dtrdiag("verify", chain_map, *CHAIN, "--json")
    assert found.status == 1
    wrong = {(p["seq"], p["rule"]) for p in found.json["problems"] if p["rule"] != "document"}
    assert wrong == {(1, rule)}


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_an_overhead_that_does_not_follow_from_the_counts(dtrdiag, answers, chain_map, here, kind):
    if kind == "json":
        with_interval(chain_map, 2, overhead=1.5)
    else:
        asked = ("map", "chain-64", "--from", "0.2", "--to", "0.25", "-j", "1")
        chain_map = here / "map.parquet"
        answers(*asked, "-o", "map.parquet")
        table = parquet.read_table(chain_map)
        column = table.column("overhead").to_pylist()
        column[2] = 1.5
        at = table.column_names.index("overhead")
        parquet.write_table(table.set_column(at, table.field(at), [column]), chain_map)
    found = dtrdiag("verify", chain_map, *CHAIN, "--sample", "1", "--json")
    assert found.status == 1
    (problem,) = found.json["problems"]
    assert (problem["seq"], problem["rule"]) == (2, "counts")
    assert "the overhead is 1.5 in the map" in problem["message"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ratio", 0.75, "the ratio is 0.75, and the budget"),
        ("ratio", -1.0, "the ratio is -1.0, and the budget"),
        ("candidates", 7, "keeps 7 candidates, and the first interval another number"),
    ],
)
def test_a_header_that_does_not_fit_its_own_row(dtrdiag, answers, here, field, value, said):
    answers("map", "recurrent-16", "--from", "0.53", "--to", "0.54", "-o", "map.parquet")
    table = parquet.read_table("map.parquet")
    column = table.column(field).to_pylist()
    column[1] = value
    at = table.column_names.index(field)
    parquet.write_table(table.set_column(at, table.field(at), [column]), "bad.parquet")
    found = dtrdiag("verify", "bad.parquet", "--trace", "recurrent-16", "--sample", "1", "--json")
    assert found.status == 1
    assert [problem["seq"] for problem in found.json["problems"]] == [1]
    assert said in found.json["problems"][0]["message"]


@pytest.mark.parametrize("field", ["baseline_cost_ns", "trace_ops", "peak_bytes"])
def test_a_map_whose_trace_has_other_figures(dtrdiag, chain_map, field):
    document = json.loads(chain_map.read_text())
    document["run"][field] += 1
    if field in document["definition"]:
        document["definition"][field] += 1
    chain_map.write_text(json.dumps(document))
    found = dtrdiag("verify", chain_map, *CHAIN, "--sample", "1", "--json")
    assert found.status == 1
    assert "trace" in {problem["rule"] for problem in found.json["problems"]}


def set_at(document, path, value):
    """Replace one value of a document, which must be another."""
    *parents, last = path
    for step in parents:
        document = document[step]
    assert document[last] != value
    document[last] = value


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("summary", "inversions"), [[1, 2]], "summary.inversions"),
        (("summary", "smallest_feasible"), 1, "summary.smallest_feasible"),
        (("summary", "worst_cliff"), None, "summary.worst_cliff"),
        (("summary", "within"), 0, "summary.within"),
        (("instability", "entropy_bits"), 0.5, "instability.entropy_bits"),
        (("instability",), None, "instability"),
        (("segments", 0, "hi"), 7, "segments[0].hi"),
        (("segments",), [], "segments"),
        (("gaps",), [[1, 2]], "gaps"),
        (("complete",), 1, "complete"),
        (("complete",), False, "complete"),
        (("policy",), "lru", "policy"),
        (("dealloc",), "banish", "dealloc"),
        (("overhead_limit",), 2, "overhead_limit"),
        (("seed",), 1, "seed"),
        (("semantics",), "repaired", "semantics"),
        (("interventions",), "keep 3", "interventions"),
        (("peak",), None, "peak"),
        (("baseline_cost",), 1, "baseline_cost"),
        (("trace", "ops"), 1, "trace.ops"),
        (("trace", "sha256"), "0" * 64, "trace.sha256"),
        (("run", "budget_bytes"), 1, "run.budget_bytes"),
        (("intervals", 2, "censored"), True, "the censored"),
        (("intervals", 2, "evictions", "total"), -1, "the evictions.total"),
    ],
)
def test_what_follows_from_the_intervals_is_derived_anew(dtrdiag, chain_map, path, value, named):
    document = json.loads(chain_map.read_text())
    if value is not False and path == ("complete",):
        document["complete"] = None  # 1 is not true
    set_at(document, path, value)
    chain_map.write_text(json.dumps(document))
    found = dtrdiag("verify", chain_map, *CHAIN, "--sample", "1", "--json")
    assert found.status == 1
    (problem,) = found.json["problems"]
    assert problem["message"].startswith(f"{named} is ")
    row = (path[1], "counts") if path[0] == "intervals" else (0, "document")
    assert (problem["seq"], problem["rule"]) == row


def test_values_that_are_not_known_are_no_fault(answers, chain_map):
    document = json.loads(chain_map.read_text())
    document["comment"] = document["summary"]["comment"] = "mine"
    del document["interventions"]  # null, as in maps of before
    document["instability"]["entropy_bits"] *= 1 + 1e-13  # another machine's logarithm
    chain_map.write_text(json.dumps(document))
    assert answers("verify", chain_map, *CHAIN, "--sample", "1", "--json").json["ok"]


def test_a_range_that_does_not_reach_all_intervals(dtrdiag, chain_map):
    document = json.loads(chain_map.read_text())
    document["to"] = document["intervals"][1]["lo"]
    chain_map.write_text(json.dumps(document))
    found = dtrdiag("verify", chain_map, *CHAIN, "--sample", "1", "--json").json["problems"]
    assert f"2 of the {len(document['intervals'])} intervals meet" in found[0]["message"]


def test_a_part_of_a_map_with_other_words_is_accepted(answers, chain_map, here):
    asked = ("map", chain_map, "--from", "0.21", "--to", "0.24", "--within", "0.01", "--json")
    (here / "part.json").write_text(answers(*asked).out)
    assert answers("verify", "part.json", *CHAIN, "--sample", "1", "--json").json["ok"]


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_intervals_that_do_not_ascend_are_refused(refuses, answers, chain_map, here, kind):
    if kind == "json":
        document = json.loads(chain_map.read_text())
        rows = document["intervals"]
        rows[0], rows[1] = rows[1], rows[0]
        chain_map.write_text(json.dumps(document))
    else:
        chain_map = here / "map.parquet"
        answers("map", "chain-64", "--from", "0.2", "--to", "0.22", "-j", "1", "-o", "map.parquet")
        table = parquet.read_table(chain_map)
        parquet.write_table(table.take(list(reversed(range(len(table))))), chain_map)
    assert "its intervals do not ascend" in refuses("verify", chain_map, *CHAIN)


def test_an_interval_that_is_there_twice_is_refused(refuses, chain_map):
    document = json.loads(chain_map.read_text())
    document["intervals"].insert(0, document["intervals"][0])
    chain_map.write_text(json.dumps(document))
    assert "its intervals do not ascend" in refuses("map", chain_map)


def test_the_policy_file_must_be_the_one_of_the_map(dtrdiag, answers, here):
    text = "from dtrdiag.simulator import policy\n\n\n@policy('own')\ndef own(pool):\n"
    text += "    return pool.size_bytes\n"
    (here / "own.py").write_text(text)
    (here / "other.py").write_text(f"{text}# another\n")
    asked = ("map", "chain-64", "--from", "0.2", "--to", "0.21", "-j", "1", "-p", "own")
    answers(*asked, "--policy-file", "own.py", "-o", "map.json")
    check = ("verify", "map.json", *CHAIN, "--sample", "1", "--json", "--policy-file")
    assert answers(*check, "own.py").json["ok"]
    found = dtrdiag(*check, "other.py")
    assert (found.status, found.json["problems"][0]["rule"]) == (1, "document")


def test_the_progress_of_a_check_is_told(chain_map):
    told = []
    saved = read_map(str(chain_map))
    check_map(saved, resolve("chain-64"), sample=3, tell=lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_interval_that_ends_a_byte_early_leaves_a_gap(dtrdiag, chain_map):
    intervals = json.loads(chain_map.read_text())["intervals"]
    high = intervals[0]["hi"] - 1
    with_interval(chain_map, 0, hi=high)
    found = dtrdiag("verify", chain_map, *CHAIN, "--json")
    assert found.status == 1
    assert found.json["complete"] is False
    assert {p["rule"] for p in found.json["problems"]} == {"complete", "interval", "document"}
    message = f"no interval holds the budgets from {high} to {high} bytes"
    assert message in [p["message"] for p in found.json["problems"]]


def test_an_interval_that_reaches_into_the_next_is_refused(refuses, chain_map):
    intervals = json.loads(chain_map.read_text())["intervals"]
    with_interval(chain_map, 0, hi=intervals[0]["hi"] + 1)
    assert "disagree" in refuses("verify", chain_map, *CHAIN)


def test_neighbours_that_make_the_same_decisions_are_one(dtrdiag, chain_map):
    intervals = json.loads(chain_map.read_text())["intervals"]
    with_interval(chain_map, 1, decisions_sha256=intervals[0]["decisions_sha256"])
    found = dtrdiag("verify", chain_map, *CHAIN, "--sample", "1", "--json")
    assert found.status == 1
    assert "neighbours" in {p["rule"] for p in found.json["problems"]}


def test_the_map_of_another_trace(dtrdiag, chain_map):
    found = dtrdiag("verify", chain_map, *RECURRENT, "--json")
    assert found.status == 1
    assert [p["rule"] for p in found.json["problems"]] == ["trace"]


def test_what_does_not_apply_is_refused(refuses, small, chain_map):
    assert "--sample applies to a map" in refuses("verify", small, *CHAIN, "--sample", "2")
    assert "at least 1 interval" in refuses("verify", chain_map, *CHAIN, "--sample", "0")


def test_a_parquet_log_is_no_map(answers):
    answers("run", "recurrent-16", "-r", "0.7", "-o", "run.parquet")
    found = answers("verify", "run.parquet", "--trace", "recurrent-16", "--json").json
    assert (found["ok"], found["complete"]) == (True, True)


def test_a_cut_parquet_file_is_said_to_be_cut(answers, refuses, here):
    answers("run", "chain-64", "-o", "log.parquet")
    answers("map", "chain-64", "--from", "0.1", "--to", "0.11", "-o", "map.parquet")
    for name in ("log.parquet", "map.parquet"):
        (here / "cut.parquet").write_bytes((here / name).read_bytes()[:-10])
        for verb in (["verify", "cut.parquet", *CHAIN], ["oom", "cut.parquet"]):
            line = refuses(*verb)
            assert line == "a Parquet file without its end: cut, or never finished (cut.parquet)"


def test_a_map_of_an_unknown_policy_needs_its_file(refuses, chain_map):
    document = json.loads(chain_map.read_text())
    for part in (document, document["definition"], document["run"]):
        part["policy"] = "zigzag"
    chain_map.write_text(json.dumps(document))
    line = refuses("verify", chain_map, *CHAIN)
    assert 'no policy "zigzag"; one of a file needs --policy-file FILE.py; there are dtr' in line
