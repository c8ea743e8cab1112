"""The command of a bundled recording makes the same log again."""

import shlex
from pathlib import Path

import pytest
import torch
import zstandard

from dtrdiag.cli import main
from dtrdiag.trace.bundled import bundled_traces


@pytest.mark.parametrize("name", ["resnet-20", "moe-8"])
def test_its_command_makes_it(name, tmp_path, monkeypatch, capsys):
    entry = bundled_traces()[name]
    installed = str(torch.__version__)
    if installed.partition("+")[0] != entry.torch.partition("+")[0]:
        pytest.skip(f"recorded with torch {entry.torch}; this is {installed}")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(entry.command)
    assert (program, main(arguments)) == ("dtrdiag", 0)
    made = zstandard.ZstdDecompressor().decompress(Path(entry.file).read_bytes())
    # Builds of one version differ in what the log calls them.
    version = b'"torch":"%s"'
    assert made.replace(version % installed.encode(), version % entry.torch.encode()) == (
        entry.content()
    )
