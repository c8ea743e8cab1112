"""A log that says something impossible is refused in one line that points at the fault."""

import json
from typing import Any

import pytest

from dtrdiag.errors import DtrdiagError, TraceError
from dtrdiag.trace import TraceBuilder, parse_dtr_log
from dtrdiag.trace.builder import MAX_BYTES, MAX_COST_NS

X = [{"INSTRUCTION": "CONSTANT", "NAME": "x"}, {"INSTRUCTION": "MEMORY", "NAME": "x", "MEMORY": 8}]
"""Lines 1 and 2 of most logs here."""


def call(**changes):
    line = {"INSTRUCTION": "CALL", "NAME": "f", "ARGS": ["x"], "RESULT": ["a"], "TIME": "5"}
    return {key: value for key, value in {**line, **changes}.items() if value is not None}


def memory(size="4", name="a"):
    return {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": size}


def alias(index="-1", name="a"):
    return {"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": index}


def mutate(**changes):
    line = {"INSTRUCTION": "MUTATE", "NAME": "f_", "ARGS": ["x"], "MUTATE": [0], "TIME": "5"}
    return {key: value for key, value in {**line, **changes}.items() if value is not None}


def copy(dst, src, kind="COPY"):
    return {"INSTRUCTION": kind, "DST": dst, "SRC": src}


def release(name):
    return {"INSTRUCTION": "RELEASE", "NAME": name}


A = [call(), memory(), alias()]
"""A valid call after X: lines 3 to 5."""

REFUSED: dict[str, tuple[list[Any], int, str]] = {
    # what it is: (lines after X, line of the fault, text)
    "not an object": ([["CALL"]], 3, "not a JSON object"),
    "unknown instruction": ([{"INSTRUCTION": "JUMP"}], 3, "unknown instruction 'JUMP'"),
    "no instruction": ([{"NAME": "x"}], 3, "unknown instruction None"),
    "instruction no text": ([{"INSTRUCTION": ["CALL"]}], 3, r"unknown instruction \['CALL'\]"),
    "memory alone": ([memory()], 3, "MEMORY without a CALL or CONSTANT before it"),
    "alias alone": ([*A, alias()], 6, "ALIAS without a CALL or CONSTANT before it"),
    "undefined argument": ([call(ARGS=["y"]), *A[1:]], 3, "'y' is used but was never defined"),
    "own result as argument": ([call(ARGS=["a"]), *A[1:]], 3, "'a' is used but was never defined"),
    "undefined argument of mutate": ([mutate(ARGS=["y"])], 3, "'y' is used but was never defined"),
    "copy of nothing": ([copy("c", "y")], 3, "'y' is used but was never defined"),
    "copy from nothing": ([copy("x", "y", "COPY_FROM")], 3, "'y' is used but was never defined"),
    "copy onto nothing": ([copy("y", "x", "COPY_FROM")], 3, "'y' is used but was never defined"),
    "negative size": ([call(), memory("-4"), alias()], 4, "MEMORY is negative: -4"),
    "absurd size": (
        [call(), memory(str(MAX_BYTES + 1)), alias()],
        4,
        f"MEMORY is absurdly large: {MAX_BYTES + 1}, the limit is {MAX_BYTES}",
    ),
    "size beyond 64 bits": ([call(), memory("9" * 30), alias()], 4, "MEMORY is absurdly large"),
    "size as a huge number": ([call(), memory(10**25), alias()], 4, "MEMORY is absurdly large"),
    "endless size": ([call(), memory("9" * 5000), alias()], 4, "MEMORY is not an integer: '9999"),
    "size of a second result": (
        [call(RESULT=["a", "b"]), *A[1:], memory("-1", "b"), alias("-1", "b")],
        6,
        "MEMORY is negative: -1",
    ),
    "size no number": ([call(), memory("four"), alias()], 4, "MEMORY is not an integer: 'four'"),
    "size a fraction": ([call(), memory(1.5), alias()], 4, "MEMORY is not an integer: '1.5'"),
    "size a truth value": ([call(), memory(True), alias()], 4, "MEMORY is not an integer: 'True'"),
    "size nothing": ([call(), memory(None), alias()], 4, "MEMORY is not an integer: 'None'"),
    "size empty": ([call(), memory(""), alias()], 4, "MEMORY is not an integer: ''"),
    "size a sign": ([call(), memory("-"), alias()], 4, "MEMORY is not an integer: '-'"),
    "size in other digits": ([call(), memory("٤"), alias()], 4, "MEMORY is not an integer"),
    "time no integer": ([call(TIME="5.5"), *A[1:]], 3, "TIME is not an integer: '5.5'"),
    "time nan": ([call(TIME="nan"), *A[1:]], 3, "TIME is not an integer: 'nan'"),
    "negative time": ([call(TIME=-1), *A[1:]], 3, "TIME is negative: -1"),
    "absurd time": ([call(TIME=MAX_COST_NS + 1), *A[1:]], 3, "TIME is absurdly large"),
    "time of mutate": ([mutate(TIME="soon")], 3, "TIME is not an integer: 'soon'"),
    "memory of another": ([call(), memory(name="b"), alias()], 4, "MEMORY names 'b' instead of"),
    "alias of another": ([call(), memory(), alias(name="b")], 5, "ALIAS names 'b' instead of 'a'"),
    "memory missing": (
        [call(), alias()],
        4,
        "expected the MEMORY line of 'a' after CALL, found 'ALIAS'",
    ),
    "alias missing": (
        [call(), memory(), release("x")],
        5,
        "expected the ALIAS line of 'a' after MEMORY, found 'RELEASE'",
    ),
    "alias beyond the arguments": ([*A[:2], alias(1)], 5, "ALIAS 1 of 'a' out of range: the call"),
    "alias below -1": ([*A[:2], alias(-2)], 5, "ALIAS -2 of 'a' out of range"),
    "alias without arguments": (
        [call(ARGS=[]), memory(), alias(0)],
        5,
        "ALIAS 0 of 'a' out of range: the call has 0 arguments",
    ),
    "alias no integer": ([*A[:2], alias("x")], 5, "ALIAS is not an integer: 'x'"),
    "ends before memory": ([call()], 3, "the log ends before the MEMORY line of 'a'"),
    "ends before alias": ([*A[:2]], 4, "the log ends before the ALIAS line of 'a'"),
    "no results": ([call(RESULT=[])], 3, "CALL 'f' has no results"),
    "result twice": (
        [call(RESULT=["a", "a"]), *A[1:], *A[1:]],
        3,
        "CALL 'f' names result 'a' twice",
    ),
    "result known": ([call(RESULT=["x"]), memory(name="x"), alias(name="x")], 3, "'x' is defined"),
    "constant known": (X, 3, "'x' is defined a second time"),
    "copy onto a known name": ([copy("x", "x")], 3, "'x' is defined a second time"),
    "no name": ([call(NAME=None), *A[1:]], 3, "CALL has no NAME"),
    "no arguments field": ([call(ARGS=None), *A[1:]], 3, "CALL has no ARGS"),
    "no result field": ([call(RESULT=None), *A[1:]], 3, "CALL has no RESULT"),
    "no time": ([call(TIME=None), *A[1:]], 3, "CALL has no TIME"),
    "no destination": ([{"INSTRUCTION": "COPY", "SRC": "x"}], 3, "COPY has no DST"),
    "release of no name": ([{"INSTRUCTION": "RELEASE"}], 3, "RELEASE has no NAME"),
    "no annotation": ([{"INSTRUCTION": "ANNOTATE"}], 3, "ANNOTATE has no ANNOTATION"),
    "no size": ([call(), {"INSTRUCTION": "MEMORY", "NAME": "a"}], 4, "MEMORY has no MEMORY"),
    "name a number": ([call(NAME=7), *A[1:]], 3, "NAME is not a string: 7"),
    "arguments no list": ([call(ARGS="x"), *A[1:]], 3, "ARGS is not a list: 'x'"),
    "argument a number": ([call(ARGS=[1]), *A[1:]], 3, "ARGS has something that is not a string"),
    "mutates nothing": ([mutate(MUTATE=[])], 3, "MUTATE 'f_' mutates nothing"),
    "mutates beyond": ([mutate(MUTATE=[1])], 3, "MUTATE index 1 out of range: 'f_' has 1 arg"),
    "mutates below": ([mutate(MUTATE=[-1])], 3, "MUTATE index -1 out of range"),
    "mutates a word": ([mutate(MUTATE=["first"])], 3, "MUTATE is not an integer: 'first'"),
    "mutates no list": ([mutate(MUTATE="0")], 3, "MUTATE is not a list: '0'"),
    "released too often": (
        [*A, release("a"), release("a")],
        7,
        "'a' is released more often than it is referenced",
    ),
    "released too often by mutate": ([release("x"), mutate()], 4, "'x' is released more often"),
    "copied after the last release": (
        [*A, release("a"), copy("c", "a")],
        7,
        "'a' is copied after its last reference was released",
    ),
    "moved after the last release": (
        [*A, release("a"), copy("x", "a", "COPY_FROM")],
        7,
        "'a' is copied after its last reference was released",
    ),
}


def dump(lines):
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def refused(content):
    with pytest.raises(TraceError) as raised:
        parse_dtr_log(content, name="t", path="bad.log")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 250, "one line for people"
    return raised.value


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_log_is_refused_at_its_line(case):
    lines, at, text = REFUSED[case]
    error = refused(dump([*X, *lines]))
    assert (error.path, error.line) == ("bad.log", at)
    with pytest.raises(TraceError, match=text):
        raise error
    assert str(error).endswith(f"(bad.log:{at})")


def test_the_valid_log_that_these_are_made_of_is_read():
    assert parse_dtr_log(dump([*X, *A, mutate(), copy("c", "a"), release("a")]), name="t").ops == 3


def test_text_that_is_no_json_is_refused_at_its_line():
    error = refused(dump(X) + b"epoch 1 of 3\n" + dump(A))
    assert error.what.startswith("not JSON")
    assert error.line == 3
    assert "ends in the middle" not in error.what


def test_bytes_that_are_no_text_are_refused_at_their_line():
    assert refused(dump(X) + b'{"INSTRUCTION":"\xff"}\n' + dump(A)).line == 3


def test_a_log_cut_in_a_line_is_refused_as_cut():
    error = refused(dump([*X, *A])[:-10])
    assert error.what.startswith("not JSON")
    assert error.what.endswith("(the log ends in the middle of a line)")
    assert error.line == 5


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_a_log_in_another_encoding_is_refused_by_it(encoding):
    with pytest.raises(TraceError) as error:
        parse_dtr_log(dump(X).decode().encode(encoding), name="log", path="f.log")
    assert error.value.line is None
    assert ("byte-order mark" in error.value.what) == (encoding == "utf-8-sig")
    assert error.value.what.endswith(("UTF-8", "UTF-8 without one"))


@pytest.mark.parametrize("size", ['"MEMORY":"4","MEMORY":"8"', '"MEMORY" :4,"MEMORY":4'])
def test_a_key_that_stands_twice_is_refused_at_its_line(size):
    content = dump([*X, call()]) + b'{"INSTRUCTION":"MEMORY",%s,"NAME":"a::b"}' % size.encode()
    with pytest.raises(TraceError) as error:
        parse_dtr_log(content, name="log", path="f.log")
    assert (error.value.what, error.value.line) == ("'MEMORY' stands twice in one object", 4)


@pytest.mark.parametrize("size", [10**30, str(10**30)])
def test_a_number_is_told_as_it_was_given(size):
    lines = [json.dumps(line) for line in [*X, call(), memory(size)]]
    with pytest.raises(TraceError, match=str(10**30)):
        parse_dtr_log("\n".join(lines).encode(), name="log", path="f.log")


@pytest.mark.parametrize("content", [b"", b"\n\n  \n"])
def test_an_empty_log_is_refused(content):
    error = refused(content)
    assert str(error) == "the file is empty (bad.log)"


def test_a_log_without_tensors_is_refused():
    start = dump([{"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}])
    for content in (start, start + dump([release("x")])):
        assert "no instruction that creates a tensor" in refused(content).what


def test_names_from_before_the_start_are_not_defined():
    start = {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}
    error = refused(dump([*X, start, *A]))
    assert (error.what, error.line) == ("'x' is used but was never defined", 4)


def test_deeply_nested_json_is_refused():
    error = refused(dump(X) + b"[" * 100_000 + b"\n")
    assert error.line == 3


@pytest.mark.parametrize(("cost_ns", "size_bytes"), [(0, MAX_BYTES), (MAX_COST_NS, 0)])
def test_sizes_and_costs_that_add_up_beyond_64_bits_are_refused(cost_ns, size_bytes):
    builder = TraceBuilder("t")
    most = (1 << 62) // max(cost_ns, size_bytes)
    for index in range(most):
        builder.call([f"a{index}"], "f", [], cost_ns, [size_bytes], [-1])
    with pytest.raises(TraceError, match="the sizes or the costs add up to more than"):
        builder.call(["b"], "f", [], cost_ns, [size_bytes], [-1])


def test_every_refusal_is_a_fault_of_the_input():
    error = refused(b"?")
    assert isinstance(error, DtrdiagError)
    assert error.exit_status == 2


LONG = "n" * 5000
DEEP = "[" * 1000 + "]" * 1000


@pytest.mark.parametrize(
    "lines",
    [
        [json.dumps({"INSTRUCTION": LONG})],
        [json.dumps(call(NAME=LONG, RESULT=[]))],
        [json.dumps(call(ARGS=[LONG])), json.dumps(memory()), json.dumps(alias())],
        [json.dumps(call(ARGS=[LONG] * 50 + [1]))],
        [json.dumps(call(RESULT=[LONG]))],
        [json.dumps(call()), json.dumps(memory(name=LONG))],
        [json.dumps(call(TIME=1e308)), json.dumps(memory()), json.dumps(alias())],
        [json.dumps(call()), json.dumps(memory(1e308))],
        [json.dumps(mutate(MUTATE=[1e308]))],
        [f'{{"INSTRUCTION":{DEEP}}}'],
        [f'{{"INSTRUCTION":"CALL","NAME":{DEEP},"ARGS":[],"RESULT":["y"],"TIME":"5"}}'],
        [f'{{"INSTRUCTION":"CALL","NAME":"f","ARGS":{DEEP},"RESULT":["y"],"TIME":"5"}}'],
        [f'{{"INSTRUCTION":"CALL","NAME":"f","ARGS":[],"RESULT":["y"],"TIME":{DEEP}}}'],
    ],
)
def test_a_message_is_short_whatever_the_log_says(lines):
    content = "\n".join([*map(json.dumps, X), *lines]).encode()
    with pytest.raises(TraceError) as raised:
        parse_dtr_log(content, name="x")
    assert len(str(raised.value)) < 400
