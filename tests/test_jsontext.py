"""What a quick look at JSON passes over is seen: keys that stand twice, digits, encodings."""

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.jsontext import encoding_problem, key_twice, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.text('":\\ {}a', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('":a', max_size=2), inner),
    max_leaves=12,
)


@settings(max_examples=40)
@given(value=VALUES)
def test_what_is_written_is_read_with_all_digits_and_no_key_stands_twice(value):
    content = json.dumps(value).encode()
    assert parse_json(content) == value
    assert key_twice(content, parse_json(content)) is None


@settings(max_examples=40)
@given(fields=st.dictionaries(st.text('":a\\', max_size=3), VALUES, min_size=1), data=st.data())
def test_a_key_that_stands_twice_is_found_wherever_it_is(fields, data):
    key = data.draw(st.sampled_from(sorted(fields)))
    space = data.draw(st.sampled_from(["", " ", "\n"]))
    inner = json.dumps(fields)[:-1] + f", {json.dumps(key)}{space}: 1" + "}"
    content = data.draw(st.sampled_from(["{}", '[{{"b": 2}}, {}]', '{{"name": [{}]}}'])).format(
        inner
    )
    found = key_twice(content.encode(), orjson.loads(content))
    assert found is not None
    assert found[1] == key


def test_what_is_deeper_than_python_reads_is_read_as_it_can_be():
    assert isinstance(parse_json(b"[" * 1010 + b"1" * 25 + b"]" * 1010), list)


def test_text_that_is_none_is_an_error():
    with pytest.raises(orjson.JSONDecodeError):
        parse_json(b'{"a": 12345678901234567890123')


def test_utf8_has_no_problem():
    assert encoding_problem(b"{}") is None
    assert encoding_problem(b"") is None
