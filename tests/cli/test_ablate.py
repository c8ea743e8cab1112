"""Policies side by side over a range of budgets."""

import csv

import pytest

from dtrdiag.experiments.map_files import read_map

from .test_run import POLICIES

RANGE = ["--from", "0.06", "--to", "0.12", "-j", 1]
TWO = ["ablate", "chain-64", "-p", "dtr", "-p", "none+size", *RANGE]
MEASURES = {"budgets", "inversions", "log_overhead", "worst_cliff", "entropy_bits", "intervals"}


def _facts(document):
    variants = [
        {k: v for k, v in variant.items() if k != "simulate_seconds"}
        for variant in document["variants"]
    ]
    return {k: v for k, v in document.items() if k != "folder"} | {"variants": variants}


def test_the_default_is_sixteen_policies(answers):
    document = answers("ablate", "chain-64", *RANGE, "--json").json
    assert document["schema"] == "dtrdiag.ablate/1"
    assert len(document["variants"]) == 16
    assert document["variants"][0]["also"] == ["dtr"]
    assert all(set(v["measures"]) >= MEASURES for v in document["variants"])
    assert (document["from"], document["to"]) == (int(17039360 * 0.06), int(17039360 * 0.12))


def test_measures_are_those_of_the_map(answers):
    for variant in answers(*TWO, "--json").json["variants"]:
        one = answers("map", "chain-64", "-p", variant["policy"], *RANGE, "--json").json
        assert variant["measures"] == one["instability"]


def test_limit_and_deallocation_and_distance_are_those_given(answers):
    options = ["--overhead-limit", "30", "--dealloc", "ignore", "--within", "0.01"]
    document = answers(*TWO, *options, "--json").json
    asked = (document["overhead_limit"], document["dealloc"], document["within"])
    assert asked == (30, "ignore", 170393)
    one = answers("map", "chain-64", "-p", "dtr", *RANGE, *options, "--json").json
    assert document["variants"][0]["measures"] == one["instability"]


def test_it_says_what_hangs_on_which_term(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = answers("ablate", "chain-64", *RANGE).out
    said = " ".join(out.split())
    assert said.startswith("chain-64, budgets from 1,022,361 B to 2,044,723 B, under 16 policies:")
    assert "Stopped: estar+size+stale (dtr) has 51.28 % of the budgets." in said
    assert "Cliff: estar+size+stale (dtr) has at least a factor of 2.853." in said
    assert "most of all estar+size with at least a factor of 2.002. " in said
    assert ">2.85" in said
    assert ">: at least." in said
    assert "?: undecided, since" in said
    assert "- Without size 8 " in said
    assert "Necessary here:" in said
    assert "Alone, under none+size:" in said
    assert "necessary here / sufficient here" in said
    assert all(len(line) <= 80 for line in out.splitlines())


def test_one_word_and_one_unit_for_each_effect(answers):
    said = answers("ablate", "chain-64", *RANGE).out
    sentences, _, tables = said.partition("measures, policy by policy")
    assert "oom %" in tables
    for word in ("inverted", "rise", "cliff", "stopped", "entropy"):
        assert f"\n{word.capitalize()}: " in sentences
        assert word in tables.partition("\n┡")[0]
    assert not {"thrash", "upward", "inversions"} & set(tables.split())


def test_policies_without_terms_to_compare_are_said_to_be_so(answers):
    said = answers("ablate", "chain-64", "-p", "dtr", "-p", "lru", *RANGE).out
    assert "Nothing is said of the terms of a score: that takes policies with and without" in said
    assert "necessary here" not in said
    assert "Nothing is said" not in answers(*TWO).out


def test_words_stand_for_groups_of_policies(answers):
    document = answers("ablate", "chain-64", "-p", "named", *RANGE, "--json").json
    policies = [variant["policy"] for variant in document["variants"]]
    assert policies == ["dtr", "dtr-eq", "dtr-local", "dtr-full", "msps", "lru", "size", "random"]


def test_policies_of_the_user_stand_beside_the_ablations(answers, here):
    (here / "mine.py").write_text(POLICIES)
    given = ["--policy-file", "mine.py", "--from", "0.1", "--to", "0.101", "-j", 1]
    document = answers("ablate", "chain-64", *given, "--json").json
    assert len(document["variants"]) == 17
    assert document["variants"][-1]["policy"] == "squared-staleness"
    assert document["variants"][-1]["factors"] is None


# --- files ----------------------------------------------------------------------------------------


def test_maps_are_kept_and_used_again(answers, here):
    first = answers(*TWO, "-o", "maps", "--json").json
    names = sorted(path.name for path in (here / "maps").iterdir())
    assert names == ["dtr.parquet", "none+size.parquet"]
    before = {path: path.read_bytes() for path in (here / "maps").iterdir()}
    again = answers(*TWO, "-o", "maps", "--json").json
    assert again == first
    assert {path: path.read_bytes() for path in (here / "maps").iterdir()} == before
    shown = answers("map", "maps/dtr.parquet", "--json").json
    assert shown["instability"] == first["variants"][0]["measures"]


def test_a_wider_range_extends_the_maps(answers):
    answers(*TWO[:-6], *["--from", "0.06", "--to", "0.08", "-j", 1], "-o", "maps", "--json")
    wide = answers(*TWO, "-o", "maps", "--json").json
    assert _facts(wide) == _facts(answers(*TWO, "--json").json)
    assert read_map("maps/dtr.parquet").from_bytes == int(17039360 * 0.06)


def test_a_map_of_something_else_is_refused_and_left_alone(answers, refuses):
    answers(*TWO, "-o", "maps", "--json")
    assert "another overhead_limit" in refuses(*TWO, "-o", "maps", "--overhead-limit", "20")
    answers(*TWO, "-o", "maps", "--overhead-limit", "20", "--force", "--json")


def test_csv_has_a_row_for_each_map(answers, here):
    document = answers(*TWO, "--csv", "found.csv", "--json").json
    with (here / "found.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["policy"] for row in rows] == ["dtr", "none+size"]
    measures = document["variants"][0]["measures"]
    assert float(rows[0]["entropy_bits"]) == measures["entropy_bits"]
    assert int(rows[0]["inversions.bytes"]) == measures["inversions"]["bytes"]


# --- noise ----------------------------------------------------------------------------------------


def test_noise_changes_costs_and_is_kept_apart(answers, here):
    command = [*TWO, "--epsilon", "0.05", "--noise-seeds", "2", "-o", "maps"]
    document = answers(*command, "--json").json
    assert document["noise"] == {"epsilon": 0.05, "seeds": [0, 1]}
    names = sorted(path.name for path in (here / "maps").iterdir())
    assert names == [
        "dtr.noise-0.05-0.parquet",
        "dtr.noise-0.05-1.parquet",
        "dtr.parquet",
        "none+size.noise-0.05-0.parquet",
        "none+size.noise-0.05-1.parquet",
        "none+size.parquet",
    ]
    noisy = read_map("maps/dtr.noise-0.05-1.parquet")
    assert noisy.definition["interventions"] == "costs 0.05@1"
    plain = read_map("maps/dtr.parquet")
    costs = [{run.header.baseline_cost_ns for run in each.outcomes} for each in (plain, noisy)]
    assert costs[0].isdisjoint(costs[1])
    assert answers(*command, "--json").json == document
    shown = answers(*command).out
    assert "effects (at least) under noise" in shown
    assert "stopped %" in shown.partition("under noise")[2]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["ablate", "chain-64", "--from", "0.1"], "needs --from and --to"),
        ([*TWO, "-p", "dtl"], 'no policy "dtl"'),
        ([*TWO, "--noise-seeds", "3"], "--noise-seeds needs --epsilon"),
        ([*TWO, "--epsilon", "1.5"], "must be in (0, 1)"),
        ([*TWO, "--epsilon", "0.1", "--noise-seeds", "0"], "must be 1 to 1000"),
        ([*TWO, "-j", "0"], "-j must be 1 to 256"),
        ([*TWO, "-o", "no/such"], "folder cannot be made"),
        ([*TWO, "--csv", "no/such.csv"], "folder does not exist"),
        (["ablate", "chain-64", "--from", "0.2", "--to", "0.1"], "the range is empty"),
    ],
)
def test_what_cannot_be_used_is_refused(refuses, arguments, what):
    assert what in refuses(*arguments)


def test_maps_are_not_mixed_with_the_results_of_a_sweep(answers, refuses):
    answers("sweep", "chain-64", "--ratios", "0.5", "-o", "kept")
    assert "is the folder of a sweep" in refuses(*TWO, "-o", "kept")


def test_a_folder_that_is_a_file_is_refused(refuses, here):
    (here / "maps").write_text("mine")
    assert "folder cannot be made" in refuses(*TWO, "-o", "maps")
