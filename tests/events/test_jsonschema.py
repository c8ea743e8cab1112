"""Do the JSON Schema and the specification say what the code does?"""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from jsonschema import Draft202012Validator

from dtrdiag.events import EVENT_TYPES, SCHEMA, json_schema, markdown_tables
from dtrdiag.events.__main__ import main
from dtrdiag.events.jsonschema import schema_file_name

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "dtrdiag" / "events" / schema_file_name()
FOREIGN = (ROOT / "tests" / "data" / "foreign-runtime.jsonl").read_text(encoding="utf-8")
SPECIFICATION = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def validator():
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_committed_schema_is_the_generated_one():
    done = subprocess.run(
        [sys.executable, "-m", "dtrdiag.events"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT / "tests",  # not the root, which would come before the installed package
    )
    assert COMMITTED.read_text(encoding="utf-8") == done.stdout
    assert orjson.loads(done.stdout) == json_schema()


def test_every_line_of_a_foreign_log_is_accepted(validator):
    for line in FOREIGN.splitlines():
        validator.validate(orjson.loads(line))


EVICT = next(orjson.loads(x) for x in FOREIGN.splitlines() if '"pressure", "op"' in x)
HEADER = orjson.loads(FOREIGN.splitlines()[0])


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"score": "inf", "candidates": [[3, "-inf"], [4, None], [5, 0.5]]},
        {"score": None, "op": None, "pool_size": None},
        {"toy_address": 4096},
    ],
)
def test_an_event_with_allowed_values_is_accepted(validator, change):
    assert validator.is_valid({**EVICT, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"event": "evikt"},
        {"event": "lock"},
        {"cause": "mood"},
        {"size_bytes": None},
        {"size_bytes": 1.5},
        {"size_bytes": "30"},
        {"score": "huge"},
        {"candidates": [[3]]},
        {"candidates": [[3, 0.5, 1]]},
        {"candidates": [["3", 0.5]]},
        {"candidates": None},
    ],
)
def test_an_event_with_another_value_is_refused(validator, change):
    assert not validator.is_valid({**EVICT, **change})


@pytest.mark.parametrize("name", list(EVICT))
def test_an_event_that_lacks_a_field_is_refused(validator, name):
    assert not validator.is_valid({key: EVICT[key] for key in EVICT if key != name})


def test_only_fields_with_a_default_may_be_left_out_of_a_header(validator):
    assert "ratio" not in HEADER
    assert validator.is_valid({**HEADER, "ratio": 0.5})
    assert not validator.is_valid({**HEADER, "ratio": "half"})
    assert not validator.is_valid({**HEADER, "schema": "dtrdiag.log/2.0"})


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_the_specification_has_the_table_of_every_kind(kind):
    assert f"\n### `{kind}`" in SPECIFICATION
    assert f"\n\n{markdown_tables()[kind]}\n\n" in SPECIFICATION


def test_the_specification_is_of_this_version_and_shows_the_foreign_log():
    assert f"This page is version {SCHEMA.partition('/')[2]}." in SPECIFICATION
    assert f"```json\n{FOREIGN}```\n" in SPECIFICATION


def test_the_tables_can_be_printed(capsys):
    assert main(["tables"]) == 0
    printed = capsys.readouterr().out
    assert all(table in printed for table in markdown_tables().values())


def test_other_arguments_are_a_usage_error(capsys):
    assert main(["--help-me"]) == 2
    assert capsys.readouterr().out == ""
