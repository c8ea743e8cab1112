"""What the command line says of a public trace, where this machine has them."""

import pytest


@pytest.fixture
def resnet32(traces_archive):
    return f"{traces_archive}::resnet32"


LIMIT = ["--overhead-limit", "100"]


def test_resnet32_has_an_island_of_failures(answers, resnet32):
    sweep = ["sweep", resnet32, "-p", "dtr", "--ratios", "0.098:0.108:0.001", *LIMIT]
    sweep += ["-j", 1, "-o", "kept"]  # people are told what is kept
    runs = answers(*sweep, "--json").json["runs"]
    ratios = [0.098, 0.099, 0.1, 0.101, 0.102, 0.103, 0.104, 0.105, 0.106, 0.107, 0.108]
    assert [run["ratio"] for run in runs] == ratios
    assert [run["outcome"] for run in runs] == ["ok"] * 4 + ["oom"] * 5 + ["ok"] * 2
    assert "ok at 0.098 to 0.101, oom at 0.102 to 0.106, ok at 0.107 to 0.108" in (
        answers(*sweep).out
    )


def test_resnet32_stops_with_nothing_evictable(answers, resnet32):
    found = answers("oom", resnet32, "-p", "dtr", "-r", "0.102", *LIMIT, "--json").json
    assert (found["requested_bytes"], found["depth"]) == (179_830_912, 118)
    assert found["evictable_bytes"] == 0
    assert found["resident_bytes"] + found["requested_bytes"] > found["budget"]
    assert found["pinned_bytes"] + found["locked_bytes"] == found["resident_bytes"]
    assert sum(storage["bytes"] for storage in found["storages"]) == found["resident_bytes"]


def test_resnet32_parts_at_one_fit_check(answers, resnet32):
    pair = ["-r", "0.101", "-r", "0.102"]
    found = answers("diff", resnet32, "-p", "dtr", *pair, *LIMIT, "--json").json
    assert (found["a"]["outcome"], found["b"]["outcome"]) == ("ok", "oom")
    divergence = found["first_divergence"]
    assert (divergence["kind"], divergence["fits_in"]) == ("fit", "b")
    total = divergence["memory"] + divergence["requested_bytes"]
    assert found["a"]["budget"] < total <= found["b"]["budget"]


def test_the_lstm_parts_at_one_fit_check(answers, traces_archive):
    pair = ["-r", "0.25", "-r", "0.26"]
    found = answers("diff", f"{traces_archive}::lstm-", "-p", "dtr-eq", *pair, "--json").json
    divergence = found["first_divergence"]
    assert divergence["kind"] == "fit"
    total = divergence["memory"] + divergence["requested_bytes"]
    assert found["a"]["budget"] < total <= found["b"]["budget"]
