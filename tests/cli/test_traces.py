import hashlib

import pooch
import pytest

from dtrdiag.cli import traces
from dtrdiag.trace.catalog import known_traces, resolve
from dtrdiag.trace.public import ARCHIVE_NAME, PUBLIC_TRACES


def test_list_as_json(answers):
    found = answers("traces", "list", "--json").json
    assert found["schema"] == "dtrdiag.traces/1"
    assert [entry["name"] for entry in found["traces"]] == [e.name for e in known_traces()]
    here = {entry["name"] for entry in found["traces"] if entry["available"]}
    assert "recurrent-16" in here
    assert "resnet32" not in here


def test_list_for_people(answers):
    out = answers("traces", "list").out
    assert "recurrent-16" in out
    assert out.endswith("Get the missing ones with: dtrdiag traces fetch\n")


def test_info_as_json(answers):
    found = answers("traces", "info", "recurrent-16", "--json").json
    trace = resolve("recurrent-16")
    assert found["schema"] == "dtrdiag.trace/1"
    assert (found["ops"], found["tensors"]) == (trace.ops, trace.tensors)
    assert (found["sha256"], found["peak"]) == (trace.sha256, 70_830_376)
    assert found["baseline_cost"] == trace.baseline_cost_ns


def test_info_for_people(answers):
    out = answers("traces", "info", "recurrent-16").out
    assert out.startswith("recurrent-16 is a step of 654 ops")
    assert "70,830,376 B" in out


def test_info_of_a_file(answers, here, chain_lines):
    content = b"\n".join(chain_lines) + b"\n"
    (here / "a.log").write_bytes(content)
    found = answers("traces", "info", "a.log", "--json").json
    assert (found["name"], found["sha256"]) == ("a", hashlib.sha256(content).hexdigest())


def test_fetch_refuses_another_archive(refuses, here, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path_factory.mktemp("cache")))
    (here / "other.zip").write_bytes(b"PK")
    assert "not the archive of public traces" in refuses("traces", "fetch", "--from", "other.zip")
    assert "no such file" in refuses("traces", "fetch", "--from", "gone.zip").lower()


def test_fetch_from_a_local_archive(answers, traces_archive, tmp_path_factory, monkeypatch):
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("DTRDIAG_CACHE", str(cache))
    found = answers("traces", "fetch", "--from", traces_archive, "--json").json
    assert found["schema"] == "dtrdiag.fetch/1"
    assert found["archive"] == str(cache / ARCHIVE_NAME)
    assert "resnet32" in found["traces"]
    assert answers("traces", "info", "resnet32", "--json").json["ops"] == 509
    assert "The public traces are in" in answers("traces", "fetch").out


@pytest.mark.parametrize("shape", ["archive", "folder", "logs"])
def test_fetch_gets_nothing_where_the_traces_are_found(answers, here, monkeypatch, shape):
    place = here / "found"
    place.mkdir()
    names = [trace.file for trace in PUBLIC_TRACES.values()] if shape == "logs" else [ARCHIVE_NAME]
    for name in names:
        (place / name).write_bytes(b"")
    monkeypatch.setenv("DTRDIAG_TRACES", str(place / names[0] if shape == "archive" else place))
    monkeypatch.setattr(traces, "fetch_archive", None)
    where = str(place if shape == "logs" else place / ARCHIVE_NAME)
    assert answers("traces", "fetch", "--json").json["archive"] == where
    out = answers("traces", "fetch").out
    assert f"The public traces are in {where}: " in out
    assert "DTRDIAG_TRACES leads there, so nothing was fetched." in out


@pytest.mark.parametrize("option", [["--force"], ["--from", "gone.zip"]])
def test_fetch_is_told_to_get_them_all_the_same(answers, here, monkeypatch, option):
    (here / ARCHIVE_NAME).write_bytes(b"")
    monkeypatch.setenv("DTRDIAG_TRACES", str(here))
    monkeypatch.setattr(traces, "fetch_archive", lambda source, force: f"got {source}")
    assert answers("traces", "fetch", *option, "--json").json["archive"].startswith("got ")


def test_fetch_gets_what_is_found_in_part(answers, here, monkeypatch):
    (here / PUBLIC_TRACES["unet"].file).write_bytes(b"")
    monkeypatch.setenv("DTRDIAG_TRACES", str(here))
    monkeypatch.setattr(traces, "fetch_archive", lambda source, force: "got")
    assert answers("traces", "fetch", "--json").json["archive"] == "got"


def test_without_a_network_other_ways_are_named(refuses, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path_factory.mktemp("cache")))

    def fail(self, url, output, known):
        raise ConnectionError("no network")

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fail)
    line = refuses("traces", "fetch")
    assert "cannot get the public traces: no network; --from FILE takes a copy, and " in line
    assert "DTRDIAG_TRACES may name one" in line
