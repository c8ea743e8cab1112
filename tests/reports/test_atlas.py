"""The atlas is written from its cells, and its sentences count what the cells hold."""

import csv
import importlib.util
import json
import sys
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[2] / "reports" / "atlas"


def load(name):
    spec = importlib.util.spec_from_file_location(f"atlas_{name}", REPORT / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


make, written = load("make"), load("written")


@pytest.fixture(scope="module")
def cells():
    kinds = [make.Cell("recurrent-16", "dtr", semantics) for semantics in make.SEMANTICS]
    return [json.loads(json.dumps(make.measure(cell, 20.0))) for cell in kinds]


def test_a_cell_knows_every_sample_and_its_whole_window(cells):
    for cell in cells:
        assert len(cell["overview"]["samples"]) == cell["overview"]["asked"] == 96
        assert cell["window"]["to"] == cell["window"]["asked_to"]
        lows, highs = zip(*[interval[:2] for interval in cell["window"]["intervals"]], strict=True)
        assert highs[:-1] == lows[1:]
        assert cell["window"]["measures"]["known_bytes"] == (
            cell["window"]["to"] - cell["window"]["from"] + 1
        )


@pytest.mark.parametrize(
    ("outcomes", "inversions", "rises"),
    [
        ("MooM", 1, 0),
        ("MMoo", 0, 0),
        ("oMMo", 2, 0),
        ("o2o", 0, 1),
        ("oM2", 1, 1),
        ("2oo", 0, 0),
        ("ot", 0, 1),
        ("tt", 0, 0),
    ],
)
def test_samples_are_counted_by_outcome(outcomes, inversions, rises):
    kinds = {"M": ("oom", 1.2), "o": ("ok", 1.2), "2": ("ok", 2.0), "t": ("thrashed", 10.1)}
    samples = [dict(zip(("outcome", "overhead"), kinds[kind], strict=True)) for kind in outcomes]
    assert written.sampled_inversions(samples) == inversions
    assert written.sampled_rises(samples) == rises


def test_the_report_is_written_whole(cells, tmp_path):
    pytest.importorskip("vl_convert")
    pytest.importorskip("pyarrow")
    written.write(tmp_path, cells, 20.0)
    names = {"README.md", "cells.csv", "windows.parquet", "cliffs.svg", "recurrent-16.svg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    with (tmp_path / "cells.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["semantics"] for row in rows] == ["simrd", "repaired"]
    page = (tmp_path / "README.md").read_text()
    assert "$" not in page
    assert "192 of 192 samples were made and 2 of 2 windows are whole" in " ".join(page.split())
