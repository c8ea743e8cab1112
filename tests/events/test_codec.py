"""Does an event survive being written, and is everything that is no event refused?"""

import json
import math

import attrs
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.errors import LogError, LogTooNewError, LogTooOldError
from dtrdiag.events import EVENT_TYPES, SCHEMA, Lock, RunHeader, decode, encode
from dtrdiag.events.fields import FIELDS

LOCK = {"event": "lock", "seq": 7, "cause_seq": 6, "storage": 3, "op": 4, "locks": 1}
EVICT = EVENT_TYPES["evict"](9, 8, 3, 64, "pressure", 4, 0.5, 2, ((5, 0.75),), 128, 31)


@given(st.data())
def test_an_event_survives_being_encoded_and_decoded(any_event, data):
    event = data.draw(any_event)
    assert decode(encode(event)) == event


@given(st.data())
def test_an_event_survives_json_again_and_again(any_event, data):
    event = data.draw(any_event)
    # Twice, since the second decoding of a shape takes another way through the decoder.
    text = orjson.dumps(encode(event))
    for _ in range(2):
        again = decode(orjson.loads(text))
        assert again == event
        assert type(again) is type(event)
        assert orjson.dumps(encode(again)) == text


@given(st.data())
def test_no_wrong_field_is_accepted_whatever_the_others_are(any_event, data):
    event = data.draw(any_event)
    fields = json.loads(orjson.dumps(encode(event)))
    decode(fields)
    name = data.draw(st.sampled_from([field.name for field in FIELDS[event.kind]]))
    # None of these is a value of any field, not even of a list or a list of lists.
    fields[name] = data.draw(st.sampled_from([{}, [None], [[1, 2, 3]], [True], [0.5]]))
    with pytest.raises(LogError, match=f"{event.kind}: field '{name}'"):
        decode(fields)


def test_a_kind_stands_first_and_fields_in_order_of_definition():
    assert list(encode(EVICT)) == ["event", *(field.name for field in FIELDS["evict"])]


def test_a_decoded_event_is_frozen_and_hides_nothing():
    event = decode(LOCK)
    assert type(event) is Lock
    assert event == EVENT_TYPES["lock"](7, 6, 3, 4, 1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(event, "locks", 2)  # noqa: B010 - the plain form is a type error, rightly


def test_unknown_fields_are_kept_in_their_order_behind_the_known_ones():
    event = decode({"zone": "a", **LOCK, "address": [1, 2]})
    assert event.extra == {"zone": "a", "address": [1, 2]}
    assert list(encode(event)) == [*LOCK, "zone", "address"]


def test_an_extra_field_cannot_hide_one_of_the_schema():
    with pytest.raises(LogError, match="lock: extra field 'locks'"):
        encode(attrs.evolve(decode(LOCK), extra={"locks": 99}))


@pytest.mark.parametrize(("score", "text"), [(math.inf, "inf"), (-math.inf, "-inf")])
def test_an_infinite_score_is_written_by_name(score, text):
    event = attrs.evolve(EVICT, score=score, candidates=((5, score), (6, None)))
    fields = encode(event)
    assert (fields["score"], fields["candidates"]) == (text, ((5, text), (6, None)))
    assert decode(json.loads(orjson.dumps(fields))) == event


@pytest.mark.parametrize("change", [{"score": math.nan}, {"candidates": ((5, math.nan),)}])
def test_nan_is_refused_both_ways(change):
    (name,) = change
    with pytest.raises(LogError, match=f"evict: field '{name}' is nan"):
        encode(attrs.evolve(EVICT, **change))
    for _ in range(2):
        decode(encode(EVICT))
        with pytest.raises(LogError, match=f"evict: field '{name}' is nan"):
            decode({**encode(EVICT), **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"locks": None}, "lock: field 'locks' must be an int, not null"),
        ({"locks": "1"}, "lock: field 'locks' must be an int, not '1'"),
        ({"locks": 1.0}, "lock: field 'locks' must be an int, not 1.0"),
        ({"locks": True}, "lock: field 'locks' must be an int, not True"),
        ({"locks": [1] * 99}, "lock: field 'locks' must be an int, not [1, 1, 1, 1, 1,"),
        ({"event": "evikt"}, "unknown kind of event 'evikt'"),
        ({"event": ["lock"]}, "unknown kind of event ['lock']"),
    ],
)
def test_a_wrong_value_is_named_with_kind_and_field(change, message):
    decode(LOCK)
    with pytest.raises(LogError) as caught:
        decode({**LOCK, **change})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cause": "mood"}, "field 'cause' must be one of pressure, release, banish, not 'mood'"),
        ({"score": "huge"}, "field 'score' must be a score or null, not 'huge'"),
        ({"candidates": [[1]]}, "field 'candidates' must be a list of [int, score or null]"),
        ({"candidates": [[1, 2, 3]]}, "field 'candidates' must be a list of"),
        ({"candidates": [["1", 2]]}, "field 'candidates' must be a list of"),
        ({"candidates": {}}, "field 'candidates' must be a list of"),
        ({"candidates": None}, "field 'candidates' must be a list of"),
    ],
)
def test_a_wrong_value_inside_a_checked_shape_is_refused_too(change, message):
    decode(json.loads(orjson.dumps(encode(EVICT))))
    with pytest.raises(LogError) as caught:
        decode({**json.loads(orjson.dumps(encode(EVICT))), **change})
    assert str(caught.value).startswith(f"evict: {message}")


@pytest.mark.parametrize("name", list(LOCK)[1:])
def test_a_missing_field_is_named(name):
    fields = {key: value for key, value in LOCK.items() if key != name}
    for padded in (fields, {**fields, "other": 1}):
        with pytest.raises(LogError, match=f"lock: field '{name}' is missing"):
            decode(padded)


@pytest.mark.parametrize("value", [None, 3, "lock", ["lock"], {}, {"seq": 1}])
def test_what_names_no_kind_is_refused(value):
    with pytest.raises(LogError):
        decode(value)


def header(**changes):
    fields = {
        "event": "run",
        "seq": 0,
        "schema": SCHEMA,
        **dict.fromkeys(["runtime", "runtime_version", "trace_name", "policy", "semantics"], "x"),
        **dict.fromkeys(["trace_sha256", "trace_ops", "trace_tensors", "budget_bytes"]),
        **dict.fromkeys(["overhead_limit", "baseline_cost_ns"]),
        "dealloc": "eager",
        "seed": 0,
        "candidates": 0,
    }
    return {**fields, **changes}


def test_what_a_header_may_leave_out_is_null():
    event = decode(header())
    assert isinstance(event, RunHeader)
    assert (event.peak_bytes, event.ratio) == (None, None)


def test_a_newer_minor_version_is_accepted_with_its_fields():
    event = decode(header(schema="dtrdiag.log/1.31", weather="fine"))
    assert event.extra == {"weather": "fine"}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("dtrdiag.log/2.0", LogTooNewError),
        ("dtrdiag.log/10.0", LogTooNewError),
        ("dtrdiag.log/0.9", LogTooOldError),
    ],
)
def test_another_major_version_is_refused_whatever_its_fields_are(schema, error):
    for fields in (header(schema=schema), {"event": "run", "schema": schema}):
        with pytest.raises(error, match=schema):
            decode(fields)


@pytest.mark.parametrize("schema", ["", "1.0", "dtrdiag.log/1", "dtrdiag.log/1.x", 1.0, None, []])
def test_a_header_without_a_version_is_refused(schema):
    with pytest.raises(LogError, match="run: field 'schema' must be like 'dtrdiag"):
        decode(header(schema=schema))


@pytest.mark.parametrize("text", ["inf", "-inf"])
def test_only_scores_may_be_infinite(text):
    with pytest.raises(LogError, match="'ratio' must be a number or null"):
        decode(header(ratio=text))


def test_a_foreign_field_that_no_writer_could_follow_is_refused():
    nested = []
    for _ in range(2000):
        nested = [nested]
    with pytest.raises(LogError, match="'toy' is nested more than 32 deep"):
        decode(header(toy=nested))
    assert decode(header(toy=[{"a": [1]}])).extra == {"toy": [{"a": [1]}]}
