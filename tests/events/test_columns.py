"""Do events survive being turned into columns, and are columns refused that fit no events?"""

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.errors import LogError
from dtrdiag.events import EVENT_TYPES, encode
from dtrdiag.events.columns import (
    COLUMNS,
    INT,
    KIND_CODES,
    Candidates,
    EventColumns,
    Flags,
    Ints,
    Lists,
    Numbers,
    Texts,
    column_name,
)
from dtrdiag.events.conversion import columns_of, events_of
from dtrdiag.events.fields import FIELDS

LOCK = EVENT_TYPES["lock"](7, 6, 3, 4, 1)
EVICT = EVENT_TYPES["evict"](9, 8, 3, 64, "pressure", 4, 0.5, 2, ((5, 0.75), (6, 1)), 128, 31)
OUTPUT = EVENT_TYPES["output"](3, None, 1, 2, 2)


def exactly(events):
    """What tells 1 from 1.0 and 0.0 from -0.0, which are equal."""
    return [repr(encode(event)) for event in events]


@settings(max_examples=60)
@given(data=st.data())
def test_events_come_back_exactly(data, event_lists):
    events = data.draw(event_lists)
    columns = columns_of(events)
    columns.check()
    assert exactly(events_of(columns)) == exactly(events)


@settings(max_examples=40)
@given(data=st.data())
def test_cutting_and_joining_batches_changes_nothing(data, event_lists):
    events = data.draw(event_lists)
    columns = columns_of(events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=4)))
    parts = [
        columns.slice(start, stop)
        for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True)
    ]
    for part in parts:
        part.check()
    joined = EventColumns.concat(parts)
    joined.check()
    assert exactly(events_of(joined)) == exactly(events)


def test_there_is_a_column_for_every_field_and_only_candidates_mean_two_things():
    for kind, fields in FIELDS.items():
        for field in fields:
            assert COLUMNS[column_name(kind, field.name)].field == field.name
    assert [name for name, spec in COLUMNS.items() if name != spec.field] == [
        "run_candidates",
        "evict_candidates",
    ]


def test_columns_are_packed():
    columns = columns_of([LOCK, EVICT, OUTPUT])
    assert columns.kind.tolist() == [KIND_CODES[kind] for kind in ("lock", "evict", "output")]
    assert columns.column("storage").values.tolist() == [3, 3, 2]
    assert columns.column("cause_seq").valid.tolist() == [True, True, False]
    assert columns.column("size_bytes").values.tolist() == [64]
    assert columns.of("evict", "storage").values.tolist() == [3]
    assert columns.column("evict_candidates").storages.tolist() == [5, 6]
    assert columns.column("evict_candidates").scores.tags.tolist() == [2, INT]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (attrs.evolve(LOCK, locks=1.5), "field 'locks' holds .* 1.5 is no integer"),
        (attrs.evolve(LOCK, locks=None), "field 'locks' holds .* None is no integer"),
        (attrs.evolve(LOCK, locks="1"), "field 'locks' holds .* 1 is no integer"),
        (attrs.evolve(LOCK, storage=2**63), "'storage' holds .* 9223372036854775808 is no integer"),
        (attrs.evolve(EVICT, cause="whim"), "field 'cause' holds .* 'whim' is none of pressure"),
        (attrs.evolve(EVICT, score="low"), "field 'score' holds .* a str is no number"),
        (attrs.evolve(EVICT, score=2**63), "field 'score' holds .* 9223372036854775808 is no"),
        (attrs.evolve(EVICT, candidates=((1, "x"),)), "field 'candidates' holds"),
        (attrs.evolve(LOCK, extra={"x": object()}), r"event 7 \(lock\) has no JSON form"),
        (attrs.evolve(LOCK, extra={"locks": 1}), "lock: extra field 'locks' hides"),
    ],
)
def test_what_no_column_can_hold_is_refused(event, message):
    with pytest.raises(LogError, match=message):
        columns_of([OUTPUT, event])


def ints(*values):
    return Ints(np.array(values, np.int64))


NULL_LOCKS = Ints(np.array([1]), np.array([False]))
WORDS = COLUMNS["cause"].words or ()


@pytest.mark.parametrize(
    ("event", "column", "value", "message"),
    [
        (LOCK, "locks", None, "column 'locks' is missing, of 1 entries"),
        (LOCK, "locks", ints(1, 2), "column 'locks' has 2 entries for 1 events"),
        (LOCK, "locks", Ints(np.array([1.0])), "'locks' must be a flat array of int64"),
        (LOCK, "locks", Flags(np.array([True])), "'locks' must be of class Ints"),
        (LOCK, "locks", NULL_LOCKS, "lock: field 'locks' must not be null"),
        (LOCK, "surprise", ints(1), "unknown column 'surprise'"),
        (EVICT, "cause", Texts(np.array([3], np.int32), WORDS), "has a code beyond its 3 words"),
        (EVICT, "cause", Texts(np.array([0], np.int32), ("x",)), "'cause' must have the words"),
        (EVICT, "score", Numbers(np.array([2], np.uint8), np.array([np.nan])), "is nan somewhere"),
        (EVICT, "score", Numbers(np.array([1], np.uint8), np.array([0.0])), "and no ints"),
        (EVICT, "score", Numbers(np.array([9], np.uint8), np.array([0.0])), "an unknown tag"),
        (EVICT, "evict_candidates", Candidates.none(2), "has 2 entries for 1 events"),
    ],
)
def test_columns_that_fit_no_events_are_refused(event, column, value, message):
    whole = columns_of([event])
    fields = {**whole.fields, column: value}
    if value is None:
        del fields[column]
    with pytest.raises(LogError, match=message):
        EventColumns(whole.kind, fields).check()


@pytest.mark.parametrize("offsets", [[0, 5], [1, 0], [-1, 0], []])
def test_offsets_stay_within_the_values(offsets):
    assert Lists(np.array(offsets, np.int64), np.array([4], np.int64)).fault() is not None


def test_a_word_of_another_kind_is_refused():
    pin = EVENT_TYPES["pin"](5, 4, 0, "constant", 1)
    whole = columns_of([pin])
    words = COLUMNS["reason"].words or ()
    wrong = Texts(np.array([words.index("remat")], np.int32), words)
    with pytest.raises(LogError, match="pin: field 'reason' must be one of constant, output, ban"):
        EventColumns(whole.kind, {**whole.fields, "reason": wrong}).check()


def test_infinities_belong_to_scores_alone():
    thrashed = EVENT_TYPES["thrashed"](5, 4, 10, float("inf"))
    with pytest.raises(LogError, match="column 'limit_ns' is infinite somewhere"):
        columns_of([thrashed]).check()
    columns_of([attrs.evolve(EVICT, score=float("-inf"))]).check()


def test_an_unknown_kind_is_refused():
    with pytest.raises(LogError, match="unknown kind of event 16"):
        EventColumns(np.array([16], np.uint8), {}).check()
