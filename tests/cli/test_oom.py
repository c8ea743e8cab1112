import gzip
import shutil
import subprocess
import zipfile

import networkx as nx
import pytest

from dtrdiag.rendering.dot import COLLAPSE_ABOVE

KEYS = {
    "schema", "outcome", "op", "op_name", "requested_bytes", "budget", "resident_bytes",
    "shortfall_bytes", "pinned_bytes", "locked_bytes", "evictable_bytes", "depth", "passes_at",
    "stack", "storages",
}  # fmt: skip

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed")


def test_json_has_the_keys_that_scripts_rely_on(answers, fails):
    found = answers("oom", fails, "--json").json
    assert set(found) >= KEYS
    assert (found["schema"], found["outcome"]) == ("dtrdiag.oom/1", "oom")
    assert all({"op", "name", "kind", "locks"} <= set(step) for step in found["stack"])
    assert all({"id", "bytes", "state", "held_by"} <= set(s) for s in found["storages"])


def test_the_bytes_add_up(answers, fails):
    found = answers("oom", fails, "--json").json
    assert found["evictable_bytes"] == 0
    assert found["pinned_bytes"] + found["locked_bytes"] == found["resident_bytes"]
    assert sum(storage["bytes"] for storage in found["storages"]) == found["resident_bytes"]
    assert found["resident_bytes"] + found["requested_bytes"] == found["passes_at"]
    assert found["passes_at"] - found["budget"] == found["shortfall_bytes"] > 0
    assert found["depth"] == len(found["stack"]) == 163
    assert [step["kind"] for step in found["stack"]] == ["first"] + ["remat"] * 162


def test_a_trace_with_options_is_the_same_run(answers, fails):
    saved = answers("oom", fails, "--json").json
    simulated = answers("oom", "recurrent-16", "-p", "dtr", "-b", 38_359_636, "--json").json
    assert saved == simulated


def test_people_get_sentences_and_tables(answers, fails):
    out = answers("oom", fails).out
    assert out.startswith("Out of memory at op 44 (addmm): it needs 2,097,152 B (2.0 MiB)")
    assert "nothing is evictable" in out
    assert "pending stack, 163 deep" in out
    assert "more that add nothing" in out
    assert out.splitlines()[-1].startswith("held: ")
    assert "more that add nothing" not in answers("oom", fails, "--expand").out


def test_a_run_that_did_not_fail_says_so(refuses, works):
    line = refuses("oom", works)
    assert line.startswith("the run did not stop out of memory: its outcome is ok; what it spent")
    assert line.endswith(f"by `chains` ({works})")
    assert "its outcome is ok" in refuses("oom", "chain-64", "-r", "0.9")


def test_a_log_cut_after_the_stop_is_enough(answers, fails, here):
    lines = fails.read_bytes().splitlines(keepends=True)
    (here / "cut.jsonl").write_bytes(b"".join(lines[:-1]))
    assert answers("oom", "cut.jsonl", "--json").json == answers("oom", fails, "--json").json


def test_logs_are_told_by_their_content(answers, fails, here):
    (here / "odd.name").write_bytes(fails.read_bytes())
    (here / "odd.gz").write_bytes(gzip.compress(fails.read_bytes()))
    with zipfile.ZipFile(here / "odd.zip", "w") as bundle:
        bundle.writestr("logs/odd", fails.read_bytes())
    for name in ("odd.name", "odd.gz", "odd.zip::odd"):
        assert answers("oom", name, "--json").json["depth"] == 163


def test_dot_is_collapsed_unless_expanded(answers, fails, here):
    answers("oom", fails, "--dot", "short.dot")
    answers("oom", fails, "--dot", "long.dot", "--expand")
    short, long = ((here / name).read_text() for name in ("short.dot", "long.dot"))
    assert short.count("rematerialisation") < 2 * COLLAPSE_ABOVE < long.count("rematerialisation")


@needs_dot
def test_pictures_and_graphs_are_written(answers, fails, here):
    out = answers("oom", fails, "--dot", "a.dot", "--svg", "a.svg", "--graphml", "a.graphml").out
    assert out.endswith("Wrote a.dot, a.svg, a.graphml.\n")
    assert b"</svg>" in (here / "a.svg").read_bytes()
    assert "op 44" in nx.read_graphml(here / "a.graphml")
    assert sorted(path.name for path in here.iterdir()) == ["a.dot", "a.graphml", "a.svg"]


def test_json_may_come_with_files(answers, fails, here):
    assert answers("oom", fails, "--dot", "a.dot", "--json").json["depth"] == 163
    assert (here / "a.dot").is_file()


def test_without_dot_the_text_is_written_and_one_line_says_so(dtrdiag, fails, here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    answer = dtrdiag("oom", fails, "--svg", "a.svg", "--json")
    assert (answer.status, answer.json["depth"]) == (0, 163)
    assert answer.err.count("\n") == 1
    assert "wrote a.dot" in answer.err
    assert "install graphviz" in answer.err
    assert [path.name for path in here.iterdir()] == ["a.dot"]


def test_without_dot_the_text_replaces_nothing(refuses, fails, here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    (here / "a.dot").write_text("mine")
    assert refuses("oom", fails, "--svg", "a.svg") == "exists already; --force replaces it (a.dot)"


@pytest.mark.parametrize("option", ["--dot", "--svg", "--graphml"])
def test_files_are_replaced_with_force_alone(answers, refuses, fails, here, option, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    name = f"a.{option[2:]}"
    for path in {name, "a.dot"}:
        (here / path).write_text("mine")
    assert "exists already" in refuses("oom", fails, option, name)
    # Before anything is read: the run does not even exist.
    assert "exists already" in refuses("oom", "gone.jsonl", option, name)


@pytest.mark.parametrize(
    ("option", "suffixes"),
    [
        ("--dot", [".svg", ".png", ".graphml", ".pdf"]),
        ("--svg", [".png", ".PNG", ".pdf", ".dot", ".gv", ".graphml", ".json"]),
        ("--graphml", [".dot", ".svg", ".png"]),
    ],
)
def test_a_name_of_another_format_is_refused(refuses, fails, option, suffixes):
    for suffix in suffixes:
        line = refuses("oom", fails, option, f"run{suffix}")
        assert line.startswith(f"{option} writes ")
        assert line.endswith(f"which is not what {suffix.lower()} says (run{suffix})")


def test_a_name_that_says_no_format_is_taken(answers, fails, here):
    answers("oom", fails, "--dot", "frontier", "--graphml", "run-0.55")
    assert (here / "frontier").read_text().startswith("digraph")


def test_force_replaces(answers, fails, here):
    (here / "a.dot").write_text("mine")
    answers("oom", fails, "--dot", "a.dot", "--force")
    assert (here / "a.dot").read_text().startswith("digraph")


def test_one_file_for_two_results_is_refused(refuses, fails):
    assert "is named for two results" in refuses("oom", fails, "--dot", "a", "--graphml", "a")


@needs_dot
def test_a_drawing_that_takes_too_long_leaves_the_text_and_one_line(
    dtrdiag, fails, here, monkeypatch
):
    def hangs(command, **kwargs):
        raise subprocess.TimeoutExpired(command, kwargs["timeout"])

    monkeypatch.setattr(subprocess, "run", hangs)
    answer = dtrdiag("oom", fails, "--svg", "a.svg", "--json")
    assert (answer.status, answer.json["depth"]) == (0, 163)
    assert answer.err == ("dtrdiag: the program `dot` did not finish within 60 s: wrote a.dot\n")
    assert [path.name for path in here.iterdir()] == ["a.dot"]
