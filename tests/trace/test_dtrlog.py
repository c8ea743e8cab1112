"""A DTR log that is read and written back is the same log, and a trace says what the log says."""

import gzip
import json

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dtrdiag.errors import UsageError
from dtrdiag.trace import Step, parse_dtr_log, read_dtr_log, write_dtr_log
from dtrdiag.trace.public import PUBLIC_TRACES


def dump(lines):
    """Lines in the published form: keys sorted, no spaces."""
    text = [json.dumps(line, sort_keys=True, separators=(",", ":")) for line in lines]
    return "".join(f"{line}\n" for line in text).encode()


def memory(name, size):
    return {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": str(size)}


def constant(name, size):
    return [{"INSTRUCTION": "CONSTANT", "NAME": name}, memory(name, size)]


def call(op, args, results, time=1):
    """`results` are (name, size, alias)."""
    names = [name for name, _, _ in results]
    lines = [{"INSTRUCTION": "CALL", "NAME": op, "ARGS": args, "RESULT": names, "TIME": str(time)}]
    for name, size, alias in results:
        lines += [memory(name, size), {"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": str(alias)}]
    return lines


def mutate(op, args, indices, time=1):
    return {"INSTRUCTION": "MUTATE", "NAME": op, "ARGS": args, "MUTATE": indices, "TIME": str(time)}


def copy(dst, src, kind="COPY"):
    return {"INSTRUCTION": kind, "DST": dst, "SRC": src}


def release(name):
    return {"INSTRUCTION": "RELEASE", "NAME": name}


def annotate(label):
    return {"INSTRUCTION": "ANNOTATE", "ANNOTATION": label}


def parse(*lines):
    return parse_dtr_log(dump(lines), name="t")


def steps(trace):
    return list(
        zip(
            (Step(kind).name for kind in trace.step_kind.tolist()),
            trace.step_operand.tolist(),
            strict=True,
        )
    )


def test_constants_and_calls_make_ops_and_tensors():
    trace = parse(*constant("x", 8), *call("split", ["x"], [("a", 8, 0), ("b", 12, -1)], time=7))
    assert trace.op_name == ("constant", "split")
    assert trace.op_cost_ns.tolist() == [0, 7]
    assert trace.tensor_name == ("x", "a", "b")
    assert trace.tensor_size_bytes.tolist() == [8, 0, 12]
    assert trace.tensor_memory_bytes.tolist() == [8, 8, 12]
    assert trace.tensor_storage.tolist() == [0, 0, 2]
    assert trace.inputs_of(1).tolist() == [0]
    assert trace.outputs_of(1) == range(1, 3)
    assert (trace.storages, trace.baseline_cost_ns, trace.constant_bytes) == (2, 7, 8)
    assert steps(trace) == [
        ("CONSTANT", 0),
        ("CALL", 1),
        ("OUTPUT", 0),
        ("OUTPUT", 1),
        ("OUTPUT", 2),
    ]


def test_an_alias_of_an_alias_shares_the_root_storage():
    trace = parse(
        *constant("x", 8), *call("t", ["x"], [("v", 8, 0)]), *call("t", ["v"], [("w", 8, 0)])
    )
    assert trace.tensor_storage.tolist() == [0, 0, 0]
    assert trace.storages == 1


def test_mutate_is_a_call_whose_outputs_take_the_names_over():
    trace = parse(
        *constant("x", 8),
        *call("f", ["x"], [("a", 16, -1)]),
        *call("view", ["a"], [("v", 16, 0)]),
        mutate("add_", ["v", "x"], [0], time=3),
        *call("g", ["v"], [("b", 4, -1)]),
    )
    op = trace.op_name.index("add_")
    assert trace.inputs_of(op).tolist() == [2, 0]
    (output,) = trace.outputs_of(op)
    assert trace.tensor_name[output] == "v$"
    assert trace.tensor_size_bytes[output] == 16, "the size of the storage behind the view"
    assert trace.inputs_of(op + 1).tolist() == [output], "the name means the new tensor"
    assert ("RELEASE", 2) in steps(trace), "the old tensor is released"


def test_mutate_of_two_arguments_releases_each_after_its_rebinding():
    trace = parse(*constant("x", 8), *constant("y", 4), mutate("swap_", ["x", "y"], [1, 0]))
    assert trace.tensor_size_bytes.tolist() == [8, 4, 4, 8]
    assert steps(trace)[2:5] == [("CALL", 2), ("RELEASE", 1), ("RELEASE", 0)]


def test_copy_adds_a_reference_and_copy_from_moves_a_name():
    trace = parse(
        *constant("x", 8),
        *call("f", ["x"], [("a", 4, -1)]),
        copy("c", "a"),
        copy("c", "x", "COPY_FROM"),
        release("a"),
    )
    assert steps(trace)[2:] == [
        ("RETAIN", 1),
        ("RELEASE", 1),
        ("RETAIN", 0),
        ("RELEASE", 1),
        ("OUTPUT", 0),
        ("OUTPUT", 0),
    ], "x is an output once for each of its names, x and c; a is none"


def test_outputs_come_in_the_order_in_which_names_first_appeared():
    trace = parse(
        *constant("x", 8),
        *call("f", ["x"], [("a", 4, -1)]),
        *call("f", ["x"], [("b", 4, -1)]),
        mutate("relu_", ["a"], [0]),
    )
    assert [operand for kind, operand in steps(trace) if kind == "OUTPUT"] == [0, 3, 2]


def test_releasing_an_unknown_name_does_nothing():
    trace = parse(*constant("x", 8), release("never"))
    assert steps(trace) == [("CONSTANT", 0), ("OUTPUT", 0)]
    assert write_dtr_log(trace) == dump([*constant("x", 8), release("never")])


def test_a_released_name_may_still_be_an_argument():
    trace = parse(
        *constant("x", 8),
        *call("f", ["x"], [("a", 4, -1)]),
        release("a"),
        *call("g", ["a"], [("b", 4, -1)]),
    )
    assert trace.inputs_of(2).tolist() == [1]


def test_lines_are_counted_in_the_file_and_outputs_stand_after_the_last():
    content = b"warming up\n\n" + dump([annotate("START"), *constant("x", 8), release("x")])
    trace = parse_dtr_log(content, name="t")
    assert trace.step_line.tolist() == [4, 6]
    calls = parse(*constant("x", 8), *call("f", ["x"], [("a", 4, -1), ("b", 4, -1)]))
    assert calls.step_line.tolist()[:3] == [1, 3, 8], "that of the CALL, not of what follows it"


def test_everything_up_to_start_is_skipped_and_kept_for_writing():
    before = b'{"INSTRUCTION":"NONSENSE"}\nnot even JSON\n' + dump([annotate("BACKWARD")])
    content = before + dump([annotate("START"), *constant("x", 8), annotate("BACKWARD")])
    trace = parse_dtr_log(content, name="t")
    assert trace.ops == 1
    assert write_dtr_log(trace) == content


def test_a_line_that_only_mentions_start_does_not_end_the_preamble():
    lines = [*constant("ANNOTATE START", 8), annotate("not START")]
    trace = parse(*lines)
    assert trace.preamble == ()
    assert write_dtr_log(trace) == dump(lines)


def test_numbers_may_be_strings_or_numbers():
    lines = [*constant("x", 8), *call("f", ["x"], [("a", 4, -1)], 9), mutate("g_", ["a"], [0], 2)]
    loose = json.loads(json.dumps(lines))
    for line in loose:
        for field in ("MEMORY", "ALIAS", "TIME"):
            if isinstance(line.get(field), str):
                line[field] = int(line[field])
        if "MUTATE" in line:
            line["MUTATE"] = ["0"]
    as_numbers = parse(*loose)
    assert write_dtr_log(as_numbers) == dump(lines)
    as_strings = parse(*lines)
    assert as_numbers.op_cost_ns.tolist() == as_strings.op_cost_ns.tolist() == [0, 9, 2]
    assert as_numbers.sha256 != as_strings.sha256, "the digest is that of the bytes as they stand"


def test_a_whole_number_may_be_written_as_a_fraction():
    text = dump(constant("x", 8)).replace(b'"8"', b"8.0")
    assert parse_dtr_log(text, name="t").tensor_size_bytes.tolist() == [8]


def test_line_ends_of_windows_are_read():
    content = dump([*constant("x", 8), release("x")]).replace(b"\n", b"\r\n")
    assert parse_dtr_log(content, name="t").ops == 1


def test_a_missing_newline_at_the_end_is_no_fault():
    assert parse_dtr_log(dump(constant("x", 8)).rstrip(b"\n"), name="t").ops == 1


def test_names_are_any_text():
    lines = [*constant('q"\\ é 名', 8), *call("f", ['q"\\ é 名'], [(" ", 4, -1)])]
    trace = parse(*lines)
    assert trace.tensor_name == ('q"\\ é 名', " ")
    assert parse_dtr_log(write_dtr_log(trace), name="t").tensor_name == trace.tensor_name


def test_traces_are_equal_when_their_contents_are_and_cannot_be_changed():
    lines = [*constant("x", 8), *call("f", ["x"], [("a", 4, -1)])]
    first, second = parse(*lines), parse_dtr_log(dump(lines), name="other", path="elsewhere")
    assert first == second
    assert first != parse(*constant("x", 8))
    with pytest.raises(ValueError, match="read-only"):
        first.op_cost_ns[0] = 1
    with pytest.raises(AttributeError):
        first.name = "y"


@pytest.mark.parametrize("suffix", ["log", "log.gz", "log.zst"])
def test_a_file_is_read_by_its_suffix(tmp_path, suffix):
    content = dump([*constant("x", 8), *call("f", ["x"], [("a", 4, -1)])])
    path = tmp_path / f"small.{suffix}"
    packed = {"log.gz": gzip.compress(content), "log.zst": zstandard.compress(content)}
    path.write_bytes(packed.get(suffix, content))
    trace = read_dtr_log(path)
    assert (trace.name, trace.path) == ("small", str(path))
    assert trace == parse_dtr_log(content, name="t")
    assert read_dtr_log(path, name="mine").name == "mine"


@st.composite
def logs(draw):
    """Random valid logs: what may be released or copied is followed as in a real one."""
    names: dict[str, int] = {}
    storage: list[int] = []
    references: dict[int, int] = {}
    lines = []
    fresh = (f"x{index}" for index in range(10_000))
    sizes, costs = st.integers(0, 1 << 20), st.integers(0, 1 << 40)

    def make(name, root=None):
        tensor = len(storage)
        storage.append(tensor if root is None else root)
        references[storage[tensor]] = references.get(storage[tensor], 0) + 1
        names[name] = tensor

    def alive():
        return [name for name, tensor in names.items() if references[storage[tensor]]]

    for _ in range(draw(st.integers(0, 3))):
        lines.append(annotate(draw(st.sampled_from(["BACKWARD", "FORWARD"]))))
    if lines and draw(st.booleans()):
        lines.append(annotate("START"))
    name = next(fresh)
    lines += constant(name, draw(sizes))
    make(name)
    kinds = st.sampled_from(
        ["CONSTANT", "CALL", "CALL", "CALL", "MUTATE", "COPY", "COPY_FROM", "RELEASE", "ANNOTATE"]
    )
    for kind in draw(st.lists(kinds, max_size=25)):
        args = draw(st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=3))
        if kind == "CONSTANT":
            name = next(fresh)
            lines += constant(name, draw(sizes))
            make(name)
        elif kind == "CALL":
            args = draw(st.sampled_from([args, []]))
            aliases = draw(st.lists(st.integers(-1, len(args) - 1), min_size=1, max_size=3))
            results = [(next(fresh), draw(sizes), alias) for alias in aliases]
            lines += call(draw(st.sampled_from(["f", "g"])), args, results, draw(costs))
            roots = [None if a < 0 else storage[names[args[a]]] for a in aliases]
            for (result, _, _), root in zip(results, roots, strict=True):
                make(result, root)
        elif kind == "MUTATE" and alive():
            args = draw(st.lists(st.sampled_from(alive()), min_size=1, max_size=3, unique=True))
            indices = draw(st.lists(st.integers(0, len(args) - 1), min_size=1, unique=True))
            # Two names of one storage could release it twice; one at a time is always valid.
            indices = indices[:1]
            lines.append(mutate("h_", args, indices, draw(costs)))
            old = names[args[indices[0]]]
            make(args[indices[0]])
            references[storage[old]] -= 1
        elif kind == "COPY" and alive():
            name = next(fresh)
            source = draw(st.sampled_from(alive()))
            lines.append(copy(name, source))
            names[name] = names[source]
            references[storage[names[source]]] += 1
        elif kind == "COPY_FROM" and len(alive()) > 1:
            dst, src = draw(st.lists(st.sampled_from(alive()), min_size=2, max_size=2, unique=True))
            if storage[names[dst]] != storage[names[src]]:
                lines.append(copy(dst, src, "COPY_FROM"))
                references[storage[names[dst]]] -= 1
                names[dst] = names[src]
                references[storage[names[src]]] += 1
        elif kind == "RELEASE":
            name = draw(st.sampled_from([*alive(), "unknown"]))
            lines.append(release(name))
            if name in names:
                references[storage[names[name]]] -= 1
        elif kind == "ANNOTATE":
            lines.append(annotate(draw(st.sampled_from(["BACKWARD", "note"]))))
    return lines


@given(logs())
@settings(max_examples=80, deadline=None)
def test_writing_what_was_read_gives_the_same_bytes(lines):
    content = dump(lines)
    trace = parse_dtr_log(content, name="t")
    assert write_dtr_log(trace) == content
    assert parse_dtr_log(write_dtr_log(trace), name="t") == trace


@given(logs())
@settings(max_examples=50, deadline=None)
def test_references_never_fall_below_zero_and_storages_belong_to_roots(lines):
    trace = parse_dtr_log(dump(lines), name="t")
    storage = trace.tensor_storage.tolist()
    held = dict.fromkeys(storage, 0)
    for kind, operand in steps(trace):
        if kind in ("CALL", "CONSTANT"):
            for tensor in trace.outputs_of(operand):
                held[storage[tensor]] += 1
        elif kind in ("RETAIN", "RELEASE"):
            held[storage[operand]] += 1 if kind == "RETAIN" else -1
            assert held[storage[operand]] >= 0
        else:
            # 0 where a released name was released again and took an alias's reference along.
            assert held[storage[operand]] >= 0
    for tensor, root in enumerate(storage):
        assert (root == tensor) == (trace.tensor_alias[tensor] < 0)
        assert storage[root] == root


@pytest.mark.parametrize("name", PUBLIC_TRACES)
def test_a_public_trace_is_written_back_byte_for_byte(name):
    try:
        trace = PUBLIC_TRACES[name].load()
    except UsageError as absent:
        pytest.skip(str(absent))
    again = parse_dtr_log(write_dtr_log(trace), name=name)
    assert again == trace, "the digest is part of the comparison, so the bytes are the same"
    assert (trace.ops, trace.tensors) == (PUBLIC_TRACES[name].ops, PUBLIC_TRACES[name].tensors)
