"""Bundled traces are what their commands make, and a file that was changed is noticed."""

import gzip
import hashlib
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from dtrdiag.errors import InputError
from dtrdiag.simulator import RunConfig, baseline_peak_bytes, simulate
from dtrdiag.trace import write_dtr_log
from dtrdiag.trace.bundled import bundled_traces
from dtrdiag.trace.catalog import resolve
from dtrdiag.trace.generators.__main__ import main as generate
from dtrdiag.trace.public import PUBLIC_TRACES

OTHER = b'{"INSTRUCTION":"CONSTANT","NAME":"x"}\n{"INSTRUCTION":"MEMORY","MEMORY":"9","NAME":"x"}\n'
GENERATED = [entry.name for entry in bundled_traces().values() if entry.kind == "generated"]
RECORDED = [entry.name for entry in bundled_traces().values() if entry.kind == "recorded"]


@pytest.mark.parametrize("name", GENERATED)
def test_its_command_makes_it(tmp_path, monkeypatch, name):
    entry = bundled_traces()[name]
    monkeypatch.chdir(tmp_path)
    python, m, module, *arguments = shlex.split(entry.command)
    assert [python, m, module] == ["python", "-m", "dtrdiag.trace.generators"]
    assert generate(arguments) == 0
    assert gzip.decompress(Path(entry.file).read_bytes()) == entry.content()


@pytest.mark.parametrize("name", bundled_traces())
def test_the_index_tells_the_truth(name):
    entry, trace = bundled_traces()[name], resolve(name)
    assert (trace.name, trace.sha256) == (name, entry.sha256)
    assert (trace.ops, trace.tensors) == (entry.ops, entry.tensors)
    assert hashlib.sha256(write_dtr_log(trace)).hexdigest() == entry.sha256
    if entry.kind == "recorded":
        (first, _) = trace.preamble
        held_bytes = json.loads(first)["RECORDING"]["peak_bytes"]
        # Buffers that the step writes are there twice: as they were, and as they are.
        assert 0 <= baseline_peak_bytes(trace) - held_bytes < held_bytes / 1000
        unlimited = simulate(trace, RunConfig("lru")).end
        assert baseline_peak_bytes(trace) == unlimited.max_memory_bytes


def test_each_is_of_a_kind():
    assert list(bundled_traces()) == GENERATED + RECORDED
    assert len(RECORDED) > 10


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_one_says_how_it_was_made(name):
    entry = bundled_traces()[name]
    first, start, _ = entry.content().split(b"\n", 2)
    recording = json.loads(first)["RECORDING"]
    assert json.loads(start)["ANNOTATION"] == "START"
    assert (recording["name"], recording["torch"]) == (name, entry.torch)
    assert recording["sizes"] == entry.sizes != {}
    assert entry.command.startswith("dtrdiag record zoo:")
    assert entry.command.endswith(f" --name {name} -o {entry.file}")


def test_reading_a_recorded_one_needs_no_torch(tmp_path):
    program = (
        "import sys; sys.modules['torch'] = None; from dtrdiag.trace.catalog import resolve; "
        "print(resolve('moe-8').ops)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert (done.stdout, done.stderr) == (f"{bundled_traces()['moe-8'].ops}\n", "")


def test_they_are_small():
    files = {entry.name: Path(entry.where) for entry in bundled_traces().values()}
    sizes = {name: file.stat().st_size for name, file in files.items()}
    assert sum(sizes.values()) < 3_000_000
    assert sum(sizes[name] for name in GENERATED) < 300_000


def test_no_name_is_that_of_a_public_trace_in_another_spelling():
    def plain(name):
        return name.translate({ord("-"): None, ord("_"): None}).lower()

    assert not {plain(name) for name in bundled_traces()} & {plain(n) for n in PUBLIC_TRACES}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chain-64", b""),
        ("chain-64", b"not gzip"),
        ("chain-64", gzip.compress(OTHER, mtime=0)),
        ("moe-8", b""),
        ("moe-8", b"not zstd"),
        ("moe-8", zstandard.compress(OTHER)),
        ("moe-8", zstandard.compress(OTHER)[:-1]),
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path, monkeypatch, name, content):
    (tmp_path / bundled_traces()[name].file).write_bytes(content)
    monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path)
    with pytest.raises(InputError):
        resolve(name)
