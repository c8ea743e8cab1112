"""Every verb that reads logs takes that of a live run, which may know nothing of its program."""

import attrs
import pytest

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace import write_dtr_log
from dtrdiag.trace.catalog import resolve

UNKNOWN = ("trace_sha256", "trace_ops", "trace_tensors", "baseline_cost_ns")


def log_of_a_live_run(path, budget_bytes):
    """What a live run of chain-64 writes: the events of a simulation under another header."""
    hooks = Hooks()
    with JsonlWriter(path) as writer:

        def write(event):
            if event.kind == "run":
                unknown = dict.fromkeys(UNKNOWN)
                event = attrs.evolve(event, runtime="dtrdiag-live", trace_name="live", **unknown)
            writer(event)

        hooks.subscribe(write)
        config = RunConfig("dtr", budget_bytes, overhead_limit=None)
        return simulate(resolve("chain-64"), config, hooks).end.outcome


@pytest.fixture
def ok(here):
    peak = simulate(resolve("chain-64"), RunConfig("dtr")).end.max_memory_bytes
    assert log_of_a_live_run(here / "ok.jsonl", peak // 3) == "ok"
    return "ok.jsonl"


@pytest.fixture
def oom(here):
    peak = simulate(resolve("chain-64"), RunConfig("dtr")).end.max_memory_bytes
    assert log_of_a_live_run(here / "oom.jsonl", peak // 25) == "oom"
    return "oom.jsonl"


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("chains", ()),
        ("graph", ()),
        ("replay", ("--verify",)),
        ("replay", ("--at", "40")),
        ("report", ("-o", "page.html")),
        ("export", ("--to", "perfetto", "-o", "x.pftrace")),
        ("export", ("--to", "csv", "-o", "x.csv")),
        ("verify", ("--trace", "chain-64")),
    ],
)
def test_verbs_take_it_and_say_nothing_of_what_is_not_known(dtrdiag, ok, verb, options):
    answer = dtrdiag(verb, ok, *options)
    assert (answer.status, answer.err) == (0, "")
    assert "None" not in answer.out
    assert "overhead of" not in answer.out


def test_where_it_stopped_is_told(dtrdiag, oom):
    answer = dtrdiag("oom", oom)
    assert (answer.status, answer.err) == (0, "")
    assert "None" not in answer.out


def test_two_of_them_are_compared(dtrdiag, ok, oom):
    answer = dtrdiag("diff", ok, oom)
    assert (answer.status, answer.err) == (0, "")
    assert "None" not in answer.out
    assert "and overhead" not in answer.out


def test_a_log_of_another_program_is_found_out_by_its_events(dtrdiag, ok):
    answer = dtrdiag("verify", ok, "--trace", "tree-4")
    assert answer.status == 1
    said = "The log is of another program than the trace: they part at op "
    assert " ".join(answer.out.split()).startswith(said)
    assert "no true record" in answer.out


def test_the_first_op_of_another_program_is_named(dtrdiag, here, ok):
    """The trace that was run, but for the cost of one op in the midst of it."""
    trace = resolve("chain-64")
    costs_ns = trace.op_cost_ns.copy()
    costs_ns[40] += 5
    (here / "other.log").write_bytes(write_dtr_log(attrs.evolve(trace, op_cost_ns=costs_ns)))
    found = dtrdiag("verify", ok, "--trace", "other.log", "--json").json["program"]
    assert (found["op"], found["what"]) == (40, "cost")
    assert found["a"].endswith(f" of {costs_ns[40]} ns")
    assert found["b"].endswith(f" of {costs_ns[40] - 5} ns")


def test_a_simulated_run_beside_it_takes_its_trace(dtrdiag, ok):
    assert dtrdiag("run", "chain-64", "-r", "0.4", "-o", "simulated.jsonl").status == 0
    said = dtrdiag("diff", ok, "simulated.jsonl").one_line()
    assert "a live run that is given its recording, remat(..., trace=LOG), names it" in said


def test_whatif_refuses_it_in_one_line(dtrdiag, ok):
    """A live run cannot be made again without its program."""
    answer = dtrdiag("whatif", ok, "--trace", "chain-64", "--forbid", "3")
    assert answer.one_line().endswith("(ok.jsonl)")
