"""A pickle is read as plain data; one that asks for more is refused, and nothing of it is run."""

import os
import pickle
import pickletools
import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.errors import SnapshotError
from dtrdiag.log import unpickling
from dtrdiag.log.unpickling import plain_value

PLAIN = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**100), 2**100),
        st.floats(allow_nan=False),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.lists(inner, max_size=5).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=5),
    ),
    max_leaves=30,
)
FRAME = {"filename": "model.py", "line": 7, "name": "forward"}
VALUE = {
    "segments": [{"address": 1 << 45, "pool": (0, 0)}],
    "device_traces": [[{"action": "alloc", "frames": [FRAME]}, {"frames": [FRAME]}], []],
}


@settings(max_examples=50)
@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_data_is_what_was_written(value, protocol):
    assert plain_value(pickle.dumps(value, protocol), "x") == value


def test_what_is_shared_stays_shared_and_may_hold_itself():
    frames = [FRAME]
    events = plain_value(pickle.dumps([{"frames": frames}, {"frames": frames}]), "x")
    assert events[0]["frames"] is events[1]["frames"]
    loop = []
    loop.append(loop)
    found = plain_value(pickle.dumps(loop), "x")
    assert found[0] is found


class Hostile:
    """Pickled, it is a call of whatever it was given."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


class Plain:
    """An object of a class."""


def refusal(content):
    with pytest.raises(SnapshotError) as refused:
        plain_value(content, "bad.pickle")
    text = str(refused.value)
    assert text.endswith("(bad.pickle)")
    assert "\n" not in text
    assert len(text) < 300
    return text


def test_a_call_is_refused_by_what_it_calls_and_not_made(tmp_path):
    there = tmp_path / "made by a pickle"
    system = Hostile(os.system, (f"touch '{there}'",))
    for protocol in range(2, 6):
        text = refusal(pickle.dumps({"segments": [system]}, protocol))
        assert "holds more than plain data, refused and not run" in text
        assert f"{os.system.__module__}.system" in text
    assert not there.exists()


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Hostile(eval, ("1",)), "eval"),
        (Hostile(getattr, (1, "real")), "getattr"),
        (Plain(), "Plain"),
        (Plain, "Plain"),
        (b"bytes", "SHORT_BINBYTES"),
        (b"b" * 300, "BINBYTES"),
        (bytearray(b"b"), "BYTEARRAY8"),
        ({1, 2}, "EMPTY_SET"),
        (frozenset([1]), "FROZENSET"),
        (1 + 2j, "complex"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_what_is_no_plain_data_is_refused_by_name(value, what):
    assert what in refusal(pickle.dumps([value], 5))


PROTO = b"\x80\x04"
RAW = {
    "persistent id": (PROTO + b"Pos.system\n.", "PERSID"),
    "binary persistent id": (PROTO + b"K\x01Q.", "BINPERSID"),
    "extension": (PROTO + b"\x82\x01.", "EXT1"),
    "instance": (PROTO + b"(ios\nsystem\n.", "INST"),
    "object": (PROTO + b"(o.", "OBJ"),
    "build": (PROTO + b"}}b.", "BUILD"),
    "global": (PROTO + b"cposix\nsystem\n.", 'GLOBAL of "posix.system"'),
    "global of no end": (PROTO + b"c" + b"x" * 10_000, "GLOBAL of"),
    "out of band": (PROTO + b"\x97.", "NEXT_BUFFER"),
    "old text": (PROTO + b"S'x'\n.", "STRING"),
    "no instruction": (PROTO + b"\xfe.", "no instruction of a pickle (0xfe)"),
    "a protocol of tomorrow": (PROTO + b"\x80\x09.", "another protocol than 2 to 5"),
    "an endless number": (
        PROTO + b"\x8b" + struct.pack("<i", 1 << 30),
        "a number of 1,073,741,824",
    ),
    "a negative length": (PROTO + b"\x8b" + struct.pack("<i", -1), "a number of -1 bytes"),
    "a text longer than the file": (
        PROTO + b"\x8d" + struct.pack("<Q", 1 << 62) + b"x",
        "ends in the",
    ),
    "no end": (PROTO + b"]", "the pickle ends in the middle"),
    "nothing": (PROTO + b".", "the pickle ends in the middle"),
    "nothing remembered": (PROTO + b"h\x05.", "is damaged at byte 2"),
    "no mark": (PROTO + b"]e....", "is damaged at byte 3"),
    "half an item": (PROTO + b"}(K\x01u...", "is damaged at byte 6"),
    "a tuple of nothing": (PROTO + b"\x87...", "is damaged at byte 2"),
    "bad text": (PROTO + b"\x8c\x01\xff...", "is damaged at byte 2"),
    "appended to a number": (PROTO + b"K\x01K\x02a.", "appended to what is no list"),
    "set in a list": (PROTO + b"]K\x01K\x02s.", "set in what is no dict"),
    "a key that is a number": (PROTO + b"}K\x01K\x02s.", "a key that is no text"),
    "a key that is a list": (PROTO + b"}]K\x02s.", "a key that is no text"),
    "something after the end": (PROTO + b"].garbage", "7 bytes after the end"),
    "two values": (PROTO + b"]].", "the pickle ends in the middle"),
}


@pytest.mark.parametrize(("content", "what"), RAW.values(), ids=[*RAW])
def test_damaged_and_hostile_bytes_are_one_line(content, what):
    assert what in refusal(content)


DEEP = {
    "lists": b"]" * 5000 + b"a" * 4999,
    "dicts": b"}X\x01\0\0\0k" * 5000 + b"Ns" + b"s" * 4999,
    "tuples": b")" + b"\x85" * 5000,
    "pairs": b")" + b"N\x86" * 5000,
    "lists of marks": b"(" * 5000 + b"l" * 5000,
    "lists beside others": b"]" * 5000 + b"]aa" * 4999,
    "lists one after another": b"]" + b"\x85q\0]h\0a" * 5000,
}


@pytest.mark.parametrize("content", DEEP.values(), ids=[*DEEP])
def test_values_within_values_are_refused_before_all_is_made(content):
    assert "values within values, more than 1,000 levels at byte" in refusal(PROTO + content + b".")


def test_a_few_hundred_levels_are_read():
    value = plain_value(PROTO + b"]" * 999 + b"a" * 998 + b".", "x")
    levels = 1
    while value:
        (value,) = value
        levels += 1
    assert levels == 999


def test_nesting_that_is_not_seen_as_such_is_read_and_let_go():
    """Between any two levels a list is filled that has nothing to do with them."""
    depth = 100_000
    numbers = [struct.pack("<I", number) for number in range(1, depth + 1)]
    levels = [b"h\0Na]r" + new + b"j" + old + b"a" for old, new in pairwise(numbers)]
    content = PROTO + b"(]q\0]r" + numbers[0] + b"".join(levels) + b"l."
    value, found = plain_value(content, "x")[-1], 1
    while value:
        (value,) = value
        found += 1
    assert found == depth


def test_a_key_that_stands_twice_is_refused():
    twice = b"X\x01\0\0\0kK\x01"
    for content in (
        b"}(" + twice * 2 + b"u.",
        b"}" + (twice + b"s") * 2 + b".",
        b"(" + twice * 2 + b"d.",
    ):
        assert "a key twice in one dict" in refusal(PROTO + content)


@pytest.mark.parametrize("piece", [b"]", b"(", b"]\x94"], ids=["lists", "marks", "remembered"])
def test_a_pickle_that_makes_too_much_is_stopped(piece, monkeypatch):
    monkeypatch.setattr(unpickling, "MAX_VALUES", 1000)
    assert "more than 1,000 values" in refusal(PROTO + piece * 1100 + b".")


def test_a_stack_that_grows_is_stopped(monkeypatch):
    monkeypatch.setattr(unpickling, "MAX_VALUES", 1000)
    assert "more than 1,000 values on the stack" in refusal(PROTO + b"N" * 100_000 + b".")


def test_a_pickle_that_is_too_large_is_not_begun(monkeypatch):
    monkeypatch.setattr(unpickling, "MAX_BYTES", 1 << 20)
    assert "a pickle of more than 1 MiB" in refusal(PROTO + b"N" * (1 << 20) + b".")


def test_a_pickle_cut_anywhere_is_refused():
    content = pickle.dumps(VALUE, 4)
    for size in range(2, len(content)):
        refusal(content[:size])


@settings(max_examples=300)
@given(data=st.data(), protocol=st.integers(2, 5))
def test_any_damage_is_refused_or_gives_plain_data(data, protocol):
    content = bytearray(pickle.dumps(VALUE, protocol))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(2, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        value = plain_value(bytes(content), "x")
    except SnapshotError:
        return
    assert_plain(value)


def assert_plain(value):
    seen, stack = set(), [value]
    while stack:
        each = stack.pop()
        assert type(each) in (type(None), bool, int, float, str, list, tuple, dict)
        if id(each) not in seen and isinstance(each, list | tuple | dict):
            seen.add(id(each))
            stack.extend([*each, *each.values()] if isinstance(each, dict) else each)


def test_all_instructions_are_known_or_refused():
    """An instruction that Python lists is plain, of old protocols, or named when it is refused."""
    machine = unpickling._Machine(b"")
    plain = {code for code in range(256) if machine.table[code]}
    text_only = {"INT", "LONG", "FLOAT", "UNICODE", "PUT", "GET", "DUP", "POP", "POP_MARK", "STOP"}
    for opcode in pickletools.opcodes:
        code = ord(opcode.code)
        named = unpickling._REFUSED.get(code) == opcode.name
        assert named or code in plain or opcode.name in text_only, opcode.name
    makers = {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"}
    assert makers <= set(unpickling._REFUSED.values())
    assert not plain & unpickling._REFUSED.keys()
