"""Do two runs part where a naive comparison of their decisions says so?"""

# mypy: no-check-untyped-defs

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtrdiag.analyses import first_divergence
from dtrdiag.analyses.divergence import compare_runs, decision_document, divergence_document
from dtrdiag.events import records


def decisions(events):
    """All decisions of a run as text, with the position of each among the events."""
    letters = {"compute": "C", "rematerialise": "R"}
    found = []
    for position, event in enumerate(events):
        if event.kind in letters:
            found.append((f"{letters[event.kind]} {event.op}", position))
        elif event.kind == "evict":
            found.append((f"E {event.storage}", position))
    return found


def common_prefix(a, b):
    equal = 0
    for (in_a, _), (in_b, _) in zip(decisions(a), decisions(b), strict=False):
        if in_a != in_b:
            break
        equal += 1
    return equal


def last_fit_before(events, decision):
    found = decisions(events)
    position = found[decision][1] if decision < len(found) else len(events)
    return [event for event in events[:position] if event.kind == "fit"][-1]


def check_fit_by_hand(a, b):
    divergence = first_divergence(a, b)
    index = common_prefix(a, b)
    check_a, check_b = last_fit_before(a, index), last_fit_before(b, index)
    assert divergence.kind == "fit"
    assert divergence.index == index
    assert (divergence.seq_a, divergence.seq_b) == (check_a.seq, check_b.seq)
    asked = a[check_a.cause_seq]
    assert (asked.kind, asked.op) == ("materialise", check_a.op)
    assert (divergence.reason, divergence.depth) == (asked.reason, asked.depth)
    assert check_a.fits != check_b.fits
    assert divergence.fits_in == ("a" if check_a.fits else "b")
    assert divergence.memory_bytes == check_a.memory_bytes == check_b.memory_bytes
    assert divergence.requested_bytes == check_a.requested_bytes == check_b.requested_bytes
    needed_bytes = check_a.memory_bytes + check_a.requested_bytes
    assert divergence.margin_a_bytes == a[0].budget_bytes - needed_bytes
    assert divergence.margin_b_bytes == b[0].budget_bytes - needed_bytes
    assert (divergence.margin_a_bytes >= 0) == check_a.fits
    for run, decision, following in (
        (a, divergence.a, divergence.a_next),
        (b, divergence.b, divergence.b_next),
    ):
        expected = [text for text, _ in decisions(run)][index : index + 6]
        if len(expected) < 6:
            stop = "oom" if run[-1].outcome == "oom" else run[-1].outcome
            expected.append(stop)
        assert [decision.text, *(d.text for d in following)] == expected
    return divergence


@given(low=st.integers(0, 260), more=st.integers(0, 120), victim=st.integers(-1, 1))
def test_two_budgets_part_at_one_fit_check_that_the_larger_one_passes(
    low, more, victim, toy_log, block_ops
):
    a, b = toy_log(block_ops, low, victim), toy_log(block_ops, low + more, victim)
    same = [text for text, _ in decisions(a)] == [text for text, _ in decisions(b)]
    if same and a[-1].outcome == b[-1].outcome:
        assert first_divergence(a, b) is None
    else:
        assert check_fit_by_hand(a, b).fits_in == "b"
        assert check_fit_by_hand(b, a).fits_in == "a"


@pytest.mark.parametrize("low_high", [(0.101, 0.102), (0.102, 0.107)])
def test_resnet_32_parts_at_one_fit_check(low_high, public_run):
    a, b = (public_run("resnet32", "dtr", ratio) for ratio in low_high)
    divergence = check_fit_by_hand(a, b)
    assert divergence.fits_in == "b"
    assert divergence.a.kind in ("evict", "stop")
    assert divergence.b.kind in ("compute", "rematerialise")


def test_resnet_32_at_0_101_and_0_102_parts_over_a_convolution(public_run):
    a, b = public_run("resnet32", "dtr", 0.101), public_run("resnet32", "dtr", 0.102)
    divergence = first_divergence(a, b)
    assert (divergence.op_name, divergence.reason) == ("cudnn_convolution", "first")
    assert (divergence.memory_bytes, divergence.requested_bytes) == (934_740_176, 89_915_392)
    assert divergence.during_op == divergence.op


def test_the_lstm_parts_at_one_fit_check(public_run):
    a, b = (public_run("lstm", "dtr-eq", ratio, limit=10) for ratio in (0.25, 0.27))
    assert check_fit_by_hand(a, b).fits_in == "b"


def test_a_run_is_equal_to_itself_whatever_else_its_log_tells(public_run):
    plain = public_run("resnet32", "dtr", 0.102)
    with_losers = public_run("resnet32", "dtr", 0.102, candidates=3)
    assert plain != with_losers
    assert first_divergence(plain, with_losers) is None
    assert compare_runs(plain, with_losers).common_prefix == len(decisions(plain))


@pytest.mark.parametrize("budget_bytes", [100, 130])
def test_all_decisions_of_equal_runs_are_common(budget_bytes, toy_log, block_ops):
    events = toy_log(block_ops, budget_bytes)
    assert compare_runs(events, iter(events)).common_prefix == len(decisions(events))


def test_different_policies_part_over_the_victim(public_run):
    a, b = public_run("resnet32", "dtr", 0.3), public_run("resnet32", "lru", 0.3)
    divergence = first_divergence(a, b)
    index = common_prefix(a, b)
    assert (divergence.kind, divergence.index) == ("evict", index)
    for run, decision in ((a, divergence.a), (b, divergence.b)):
        victim = run[decisions(run)[index][1]]
        assert (decision.storage, decision.score) == (victim.storage, victim.score)
        assert decision.bytes == victim.size_bytes
    assert divergence.a.storage != divergence.b.storage


def test_different_deallocation_parts_at_a_release(public_run):
    a = public_run("resnet32", "dtr", 0.3)
    b = public_run("resnet32", "dtr", 0.3, dealloc="ignore")
    divergence = first_divergence(a, b)
    assert (divergence.kind, divergence.index) == ("evict", common_prefix(a, b))
    assert divergence.a.cause == "release"
    assert divergence.b.kind in ("compute", "rematerialise")


def test_a_lower_overhead_limit_parts_at_the_stop(public_run):
    a = public_run("resnet32", "dtr", 0.1)
    b = public_run("resnet32", "dtr", 0.1, limit=1.5)
    divergence = first_divergence(a, b)
    assert divergence.kind == "stop"
    index = len(decisions(b))
    assert divergence.index == index
    assert (divergence.a.text, divergence.b.text) == (decisions(a)[index][0], "thrashed")
    assert divergence.b_next == ()


def test_a_cut_log_parts_where_it_is_cut(public_run):
    whole = public_run("resnet32", "dtr", 0.1)
    divergence = first_divergence(whole, whole[:3000])
    assert (divergence.kind, divergence.index) == ("stop", len(decisions(whole[:3000])))
    assert (divergence.b.text, divergence.b.seq) == ("incomplete", None)


def test_a_log_without_fit_checks_is_compared_by_its_decisions(toy_log, block_ops):
    def without_checks(events):
        return [event for event in events if event.kind != "fit"]

    a, b = toy_log(block_ops, 130), toy_log(block_ops, 165)
    assert first_divergence(without_checks(a), a) is None
    assert first_divergence(b, without_checks(b)) is None
    divergence = first_divergence(without_checks(a), without_checks(b))
    assert (divergence.kind, divergence.index) == ("evict", common_prefix(a, b))
    assert divergence.memory_bytes is None


def test_logs_are_read_no_further_than_needed(toy_log, block_ops):
    def guarded(events, last_seq):
        for event in events:
            if event.seq > last_seq:
                raise AssertionError("read past what the answer needs")
            yield event

    a, b = toy_log(block_ops, 130), toy_log(block_ops, 165)
    found = first_divergence(a, b, following=0)
    assert first_divergence(guarded(a, found.a.seq), guarded(b, found.b.seq), following=0) == found


def test_an_unlimited_budget_has_no_margin(toy_log, block_ops):
    a, b = toy_log(block_ops, 130), toy_log(block_ops, 1000)
    b[0] = attrs.evolve(b[0], budget_bytes=None)
    divergence = first_divergence(a, b)
    assert (divergence.kind, divergence.fits_in) == ("fit", "b")
    assert divergence.margin_b_bytes is None
    assert divergence.margin_a_bytes < 0


def test_stops_at_different_ops_are_a_difference(make_header):
    def stop(op):
        return records.OutOfMemory(1, 0, op, 8, 4, 10, 1)

    assert first_divergence([make_header(), stop(1)], [make_header(), stop(1)]) is None
    divergence = first_divergence([make_header(), stop(1)], [make_header(), stop(2)])
    assert (divergence.kind, divergence.op) == ("stop", 1)


def test_the_documents_leave_out_what_does_not_apply(public_run):
    a = public_run("resnet32", "dtr", 0.101, candidates=2)
    b = public_run("resnet32", "dtr", 0.102)
    divergence = first_divergence(a, b)
    evict, compute = decision_document(divergence.a), decision_document(divergence.b)
    assert evict["decision"] == f"E {evict['storage']}"
    assert [storage for storage, _ in evict["candidates"]] == [
        storage for storage, _ in a[divergence.a.seq].candidates
    ]
    assert len(evict["candidates"]) == 2
    assert compute.keys() == {"decision", "seq", "kind", "op", "op_name", "cost_ns"}
    document = divergence_document(divergence)
    agreed = ("index", "kind", "op", "op_name", "memory", "requested_bytes", "fits_in", "a", "b")
    assert set(agreed) <= document.keys()
