"""Is a map that was kept the map that was found, and is what is no map refused?"""

# mypy: no-check-untyped-defs

import json
from pathlib import Path

import attrs
import pytest

from dtrdiag.errors import DtrdiagError, InputError, OutputError
from dtrdiag.experiments import map_files
from dtrdiag.experiments.budget_map import Mapper
from dtrdiag.experiments.map_files import MapFile, SavedMap, is_saved_map, read_map, write_map
from dtrdiag.experiments.outcomes import Outcomes
from dtrdiag.experiments.rows import definition_of, write_rows
from dtrdiag.simulator import RunConfig, baseline_peak_bytes
from dtrdiag.trace.catalog import resolve

TRACE = resolve("chain-64")
RULES = RunConfig("dtr", peak_bytes=baseline_peak_bytes(TRACE), overhead_limit=3)
LOW, HIGH = 900_000, 2_000_000


def made(low=LOW, high=HIGH, rules=RULES):
    saved = SavedMap(definition_of(TRACE, rules), Outcomes(), low, high)
    Mapper(TRACE, rules, saved.outcomes).map_range(low, high)
    return saved


@pytest.fixture(scope="module")
def found():
    saved = made()
    assert {o.end.outcome for o in saved.outcomes} == {"ok", "oom", "thrashed"}
    return saved


@pytest.fixture(params=[".parquet", ".json"])
def path(request, tmp_path):
    return str(tmp_path / f"map{request.param}")


def runs(saved):
    return [(outcome.header, outcome.end, outcome.engine) for outcome in saved.outcomes]


def part(saved, kept):
    """A map that knows only some of the intervals."""
    outcomes = [outcome for index, outcome in enumerate(saved.outcomes) if kept(index)]
    return attrs.evolve(saved, outcomes=Outcomes(outcomes))


def test_what_was_written_is_read(found, path):
    write_map(path, found)
    again = read_map(path)
    assert again._repr_html_() == again.between(again.from_bytes, again.to_bytes)._repr_html_()
    assert '<svg role="img"' in again._repr_html_()
    assert is_saved_map(path)
    assert runs(again) == runs(found)
    assert again.definition == found.definition
    assert (again.from_bytes, again.to_bytes, again.resolution_bytes) == (LOW, HIGH, None)


def test_a_map_with_gaps_is_read_too(found, path):
    write_map(path, attrs.evolve(part(found, lambda index: index % 2), resolution_bytes=7))
    again = read_map(path)
    assert again.resolution_bytes == 7
    assert not again.between(LOW, HIGH).complete


def test_a_file_grows_by_what_others_found(found, path):
    """Two processes at work on one file, whoever writes last."""
    ours, theirs = part(found, lambda i: i % 3), part(found, lambda i: i % 2 == 0 or i % 3 == 0)
    file, other = MapFile(path, ours), MapFile(path, theirs)
    file.save()
    other.save()
    assert runs(read_map(path)) == runs(found)
    file.save()
    assert runs(read_map(path)) == runs(found)


def test_opening_a_file_is_learning_from_it(found, path):
    write_map(path, found)
    ours = attrs.evolve(found, outcomes=Outcomes(), from_bytes=LOW - 5, to_bytes=HIGH - 5)
    MapFile(path, ours)
    assert runs(ours) == runs(found)
    assert (ours.from_bytes, ours.to_bytes) == (LOW - 5, HIGH)


def test_force_forgets_what_was_there(found, path):
    write_map(path, made(rules=attrs.evolve(RULES, policy="lru")))
    file = MapFile(path, found, force=True)
    file.save()
    assert runs(read_map(path)) == runs(found)


@pytest.mark.parametrize(
    "change",
    [{"policy": "lru"}, {"dealloc": "ignore"}, {"overhead_limit": 4}, {"seed": 1}],
)
def test_a_map_of_something_else_is_left_alone(found, path, change):
    write_map(path, found)
    before = Path(path).read_bytes()
    other = attrs.evolve(found, definition=definition_of(TRACE, attrs.evolve(RULES, **change)))
    with pytest.raises(OutputError, match=f"another {next(iter(change))}"):
        MapFile(path, other)
    assert Path(path).read_bytes() == before


def test_a_map_of_another_version_is_left_alone(found, path):
    old = attrs.evolve(found, definition=found.definition | {"version": "0.0.1"})
    write_map(path, old)
    with pytest.raises(OutputError, match=r"another version \(0\.0\.1"):
        MapFile(path, found)


def test_a_file_that_contradicts_is_refused(found, path):
    first = next(iter(found.outcomes))
    forged = attrs.evolve(first, end=attrs.evolve(first.end, decisions_sha256="0" * 64))
    write_map(path, attrs.evolve(found, outcomes=Outcomes([forged])))
    with pytest.raises(InputError, match="disagree"):
        MapFile(path, found)


def test_a_file_that_changes_into_something_else_is_left_alone(found, path):
    file = MapFile(path, found)
    Path(path).write_text("mine\n")
    with pytest.raises(DtrdiagError):
        file.save()
    assert Path(path).read_text() == "mine\n"


def test_a_map_is_saved_now_and_then(found, path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(map_files.time, "monotonic", lambda: clock[0])
    file = MapFile(path, found)
    file.save_if_due()
    assert not is_saved_map(path)
    clock[0] = map_files.SAVE_SECONDS
    file.save_if_due()
    assert is_saved_map(path)


def test_nothing_found_is_nothing_written(found, path):
    MapFile(path, attrs.evolve(found, outcomes=Outcomes())).save()
    assert not is_saved_map(path)


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.999])
def test_a_cut_file_is_refused(found, path, cut):
    write_map(path, found)
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: int(len(content) * cut)])
    with pytest.raises(InputError):
        read_map(path)


def test_damage_is_refused_or_harmless(found, path):
    write_map(path, found)
    content = Path(path).read_bytes()
    for position in range(0, len(content), max(1, len(content) // 40)):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        Path(path).write_bytes(damaged)
        try:
            again = read_map(path)
        except InputError:
            continue
        assert len(again.outcomes) == len(found.outcomes)


def test_results_that_are_no_map_are_refused(found, tmp_path):
    path = tmp_path / "sweep.parquet"
    write_rows(path, found.definition, found.outcomes)
    with pytest.raises(InputError, match="not those of a map"):
        read_map(str(path))


def _first(document, **change):
    document["intervals"][0] |= change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda d: d.update(schema="dtrdiag.map/2"), "schema"),
        (lambda d: d.pop("intervals"), "intervals"),
        (lambda d: d.pop("definition"), "definition"),
        (lambda d: d.update(run={"event": "end"}), "no map that can be used"),
        (lambda d: d.update(intervals=[]), "no interval"),
        (lambda d: d.update({"from": "low"}), "asked for"),
        (lambda d: d["definition"].update(policy="lru"), "another policy"),
        (lambda d: d["intervals"].append(d["intervals"][0] | {"outcome": "ok"}), "disagree"),
        (lambda d: _first(d, budget=5), "not in its interval"),
        (lambda d: _first(d, budget="5"), "no map that can be used"),
        (lambda d: _first(d, lo=-1.5), "no map that can be used"),
        (lambda d: _first(d, engine=None, simulate_seconds="fast"), "no map that can be used"),
    ],
)
def test_json_that_is_no_map_is_refused(found, tmp_path, change, why):
    path = str(tmp_path / "map.json")
    write_map(path, found)
    document = json.loads(Path(path).read_text())
    change(document)
    Path(path).write_text(json.dumps(document))
    with pytest.raises(InputError, match=why) as caught:
        read_map(path)
    assert str(caught.value).endswith(f"({path})")
