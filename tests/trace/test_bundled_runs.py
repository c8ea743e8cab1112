"""Runs on the bundled traces decide as simrd does, and show what docs/traces.md says they show.

`bundled-simrd.jsonl` was recorded from simrd itself on these traces: overhead limit 10, one run a
line. It needs no public trace, so every clone can check it. Runs of the bundled recordings beside
simrd are in tests/simulator/test_recorded_goldens.py.
"""

import json
from functools import cache
from pathlib import Path

import pytest

from dtrdiag.interventions import Interventions
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

RECORDS = Path(__file__).parent.parent / "data" / "bundled-simrd.jsonl"
LINES = [json.loads(line) for line in RECORDS.read_text(encoding="utf-8").splitlines()]

bundled = cache(resolve)


def run(trace, budget_bytes, **options):
    return simulate(bundled(trace), RunConfig(budget_bytes=budget_bytes, **options))


@pytest.mark.parametrize(
    "record",
    LINES,
    ids=lambda r: "-".join((r["trace"], r["policy"], r["dealloc"], str(r["budget"]))),
)
def test_every_decision_is_that_of_simrd(record):
    options = {"policy": record["policy"], "dealloc": record["dealloc"]}
    end = run(record["trace"], record["budget"], **options).end
    found = {
        "outcome": end.outcome,
        "computes": end.computes,
        "remats": end.remats,
        "remat_cost": end.remat_cost_ns,
        "evictions_total": end.evictions_pressure + end.evictions_release,
        "max_memory": end.max_memory_bytes,
        "decisions_sha256": end.decisions_sha256,
    }
    assert found == {key: record[key] for key in found}


@pytest.mark.parametrize(("below", "above"), [(38_359_635, 38_359_636), (39_408_216, 39_408_215)])
def test_recurrent_16_is_out_of_memory_above_a_budget_that_is_enough(below, above):
    enough, short = run("recurrent-16", below), run("recurrent-16", above)
    assert (enough.end.outcome, short.end.outcome) == ("ok", "oom")
    assert short.stop is not None
    assert len(short.stop.pending) > 160
    assert short.stop.evictable == ()


def test_recurrent_16_costs_far_less_with_one_byte_more():
    dear, cheap = run("recurrent-16", 39_897_383), run("recurrent-16", 39_897_384)
    assert dear.end.interval_hi_bytes == cheap.end.interval_lo_bytes == 39_897_384
    assert dear.overhead is not None
    assert cheap.overhead is not None
    assert round(dear.overhead, 4) == 2.1565
    assert round(cheap.overhead, 4) == 1.2754


def test_tree_4_thrashes_with_one_byte_more():
    cheap, dear = run("tree-4", 56_907_815), run("tree-4", 56_907_816)
    assert (cheap.end.outcome, dear.end.outcome) == ("ok", "thrashed")
    assert cheap.overhead is not None
    assert round(cheap.overhead, 4) == 1.7589


def test_gpt2_with_dropout_is_out_of_memory_with_one_byte_more():
    enough, short = run("gpt2-dropout", 5_539_814_503), run("gpt2-dropout", 5_539_814_504)
    assert (enough.end.outcome, short.end.outcome) == ("ok", "oom")
    assert enough.overhead is not None
    assert round(enough.overhead, 4) == 1.4269
    assert short.stop is not None
    assert len(short.stop.pending) == 4
    assert run("gpt2-dropout", 5_641_131_015).end.outcome == "oom"
    assert run("gpt2-dropout", 5_641_131_016).end.outcome == "ok"


def test_gpt2_with_dropout_finishes_if_it_keeps_what_tied_embeddings_add_at_the_end():
    kept = run("gpt2-dropout", 5_539_814_504, interventions=Interventions(keeps=(966,)))
    assert kept.end.outcome == "ok"


def test_an_encoder_costs_far_more_with_one_byte_more():
    cheap, dear = (run("encoder-6", b, policy="dtr-eq") for b in (688_847_127, 688_847_128))
    assert cheap.end.interval_hi_bytes == dear.end.interval_lo_bytes == 688_847_128
    assert (cheap.end.outcome, dear.end.outcome) == ("ok", "ok")
    assert cheap.overhead is not None
    assert dear.overhead is not None
    assert round(cheap.overhead, 3) == 1.774
    assert round(dear.overhead, 3) == 9.944
