"""Charts and graphs as pictures from the command line, without a browser."""

import sys
import xml.etree.ElementTree as ET

import pytest

BEGINS = {"svg": b"<svg", "png": b"\x89PNG\r\n", "pdf": b"%PDF-"}
MAP = ("map", "chain-64", "-p", "dtr", "--from", "0.2", "--to", "0.22", "-j", "1")
DIFF = ("diff", "chain-64", "-p", "dtr", "-r", "0.2", "-r", "0.3")
ABLATE = (
    "ablate",
    "chain-64",
    "-p",
    "dtr",
    "-p",
    "lru",
    "--from",
    "0.2",
    "--to",
    "0.21",
    "-j",
    "1",
)
CHARTS = {"map": MAP, "diff": DIFF, "ablate": ABLATE}
CHAINS = ("chains", "chain-64", "-p", "dtr", "-r", "0.2")
KINDS = ("--svg", "a.svg", "--png", "a.png", "--pdf", "a.pdf")


def texts(path):
    return [
        "".join(node.itertext())
        for node in ET.fromstring(path.read_bytes()).iter()
        if node.tag.endswith("}text")
    ]


def begins(here):
    for kind, magic in BEGINS.items():
        content = (here / f"a.{kind}").read_bytes()
        assert magic in content[:300]
    return True


@pytest.mark.parametrize("verb", CHARTS)
def test_a_chart_is_drawn_in_three_kinds_at_once(answers, here, verb):
    out = answers(*CHARTS[verb], *KINDS).out
    assert out.endswith("Wrote a.svg, a.png, a.pdf.\n")
    assert begins(here)
    assert sorted(path.name for path in here.iterdir()) == ["a.pdf", "a.png", "a.svg"]


def test_the_picture_of_a_map_says_what_it_shows(answers, here):
    answers(*MAP, "--overhead-limit", "20", "--svg", "a.svg")
    said = texts(here / "a.svg")
    assert "chain-64 under dtr, overhead limit 20" in said
    assert "finishes (line)" in said
    assert "overhead (x baseline cost)" in said


def test_the_picture_of_a_saved_map_is_that_of_the_map(answers, here):
    answers(*MAP, "-o", "m.json", "--svg", "a.svg")
    answers("map", "m.json", "--svg", "b.svg")
    assert (here / "a.svg").read_bytes() == (here / "b.svg").read_bytes()
    answers("map", "m.json", "--svg", "b.svg", "--force")


def test_the_picture_of_two_runs_names_both(answers, here):
    answers(*DIFF, "--svg", "a.svg")
    said = texts(here / "a.svg")
    assert "chain-64: dtr 0.2 (a), dtr 0.3 (b)" in said
    assert {"by storages", "by bytes", "Jaccard of resident sets"} <= set(said)


def test_the_picture_of_an_ablation_has_a_line_for_each_policy(answers, here):
    answers(*ABLATE, "--svg", "a.svg")
    said = texts(here / "a.svg")
    assert "chain-64: outcomes by policy" in said
    assert [word for word in said if word in ("dtr", "lru")] == ["dtr", "lru"]


def test_the_answer_as_json_stays_one_document(answers, here):
    plain = answers(*DIFF, "--json").json
    drawn = answers(*DIFF, "--json", "--png", "a.png").json
    for document in (plain, drawn):
        for run in ("a", "b"):
            del document[run]["simulate_seconds"]
    assert plain == drawn
    assert (here / "a.png").exists()


@pytest.mark.parametrize("arguments", [("oom",), CHAINS])
def test_a_graph_is_drawn_in_three_kinds_at_once(answers, here, fails, arguments):
    run = (arguments[0], fails) if arguments == ("oom",) else arguments
    assert answers(*run, *KINDS, "--dot", "a.dot").out.endswith(
        "Wrote a.dot, a.svg, a.png, a.pdf.\n"
    )
    assert begins(here)


@pytest.mark.parametrize("suffix", ["png", "pdf"])
def test_a_neighbourhood_of_storages_is_drawn(answers, here, small, suffix):
    out = answers("graph", small, "--around", "10", "-o", f"a.{suffix}").out
    assert out.endswith(f"Wrote a.{suffix}.\n")
    assert BEGINS[suffix] in (here / f"a.{suffix}").read_bytes()[:10]


@pytest.mark.parametrize("verb", [*CHARTS, "chains"])
def test_files_that_exist_stay_unless_forced(answers, refuses, here, verb):
    arguments = CHAINS if verb == "chains" else CHARTS[verb]
    (here / "a.png").write_bytes(b"mine")
    said = refuses(*arguments, "--svg", "a.svg", "--png", "a.png")
    assert said == "exists already; --force replaces it (a.png)"
    assert not (here / "a.svg").exists()
    if verb == "diff":
        answers(*arguments, "--png", "a.png", "--force")
        assert (here / "a.png").read_bytes() != b"mine"


@pytest.mark.parametrize("verb", CHARTS)
@pytest.mark.parametrize(
    ("option", "name", "what"),
    [
        ("--svg", "a.png", "--svg writes SVG, which is not what .png says"),
        ("--png", "a.svg", "--png writes PNG, which is not what .svg says"),
        ("--pdf", "a.html", "--pdf writes PDF, which is not what .html says"),
        ("--png", "none/a.png", "the folder does not exist"),
    ],
)
def test_files_that_cannot_be_are_refused_before_anything_runs(refuses, verb, option, name, what):
    assert refuses(*CHARTS[verb], option, name).startswith(what)


def test_one_file_for_two_kinds_is_refused(refuses):
    assert refuses(*DIFF, "--svg", "a", "--png", "a").startswith("is named for two results")


def test_charts_without_the_extra_say_what_to_install(refuses, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    said = refuses(*MAP, "--svg", "a.svg")
    assert said == "pictures need vl-convert: pip install 'dtrdiag[charts]'"


@pytest.mark.parametrize(
    "arguments", [(*CHAINS, "--pdf", "a.pdf"), (*CHAINS, "--png", "a.png", "--svg", "a.svg")]
)
def test_graphs_without_dot_say_what_to_install(refuses, monkeypatch, arguments):
    monkeypatch.setenv("PATH", "")
    assert "there is no program `dot`; install graphviz" in refuses(*arguments)


def test_a_graph_as_a_file_without_dot_is_refused(refuses, small, monkeypatch):
    monkeypatch.setenv("PATH", "")
    said = refuses("graph", small, "--around", "10", "-o", "a.png")
    assert said.startswith("-o a.png: there is no program `dot`; install graphviz")


def test_equal_runs_have_an_answer_and_no_picture(dtrdiag, here, small):
    found = dtrdiag("diff", small, small, "--svg", "a.svg")
    assert found.status == 0
    assert "decisions" in found.out
    assert "Wrote" not in found.out
    why = "the two runs make the same decisions: there is nothing to draw"
    assert found.err == f"dtrdiag: no picture is written, as {why}\n"
    assert not (here / "a.svg").exists()


def test_one_run_of_a_saved_map_has_no_picture(answers, refuses):
    answers(*MAP, "-o", "m.json")
    said = refuses("map", "m.json", "--at", "0.21", "--png", "a.png")
    assert said == "--png draws a whole map, and --at shows one run of it"
    said = refuses("map", "m.json", "--force")
    assert said.startswith("--force does not apply to a saved map")
