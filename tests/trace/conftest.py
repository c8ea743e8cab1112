"""What several modules of tests of one kind of trace share."""

import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from .executiontraces import LINEAR, TIMES, document


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Writes the execution trace of a linear layer and a profiler's trace, into this folder."""
    monkeypatch.chdir(tmp_path)

    def write(times=TIMES, nodes=LINEAR, name="et.kineto.json"):
        (tmp_path / "et.json").write_text(json.dumps(document(*nodes)))
        (tmp_path / name).write_text(json.dumps(times))

    return write


@pytest.fixture(scope="module")
def validator():
    """The schema of graphs, which is itself one that makes sense."""
    text = resources.files("dtrdiag.trace").joinpath("graph-1.json").read_text(encoding="utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))
