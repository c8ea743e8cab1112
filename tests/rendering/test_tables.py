"""Do tables show what the documents hold, whatever the names in them?"""

# mypy: no-check-untyped-defs

import io

import pytest
from rich.console import Console

from dtrdiag.analyses import summary_document
from dtrdiag.rendering import tables
from dtrdiag.rendering.answers import sweep_tables, sweep_words


def shown(table, width=160):
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(table)
    return stream.getvalue()


def test_a_run_is_shown_with_both_counts_of_its_evictions(make_summary):
    document = summary_document(make_summary(ratio=0.5), "python", 1.25)
    text = shown(tables.run_table(document))
    assert "1,000 B, 0.5 of the peak" in text
    assert "12: 5 pressure, 7 release" in text
    assert "from 980 B to below 1,010 B" in text
    assert "1.5000x" in text
    assert "1.250 s" in text


def test_a_run_with_what_is_not_known(make_summary):
    summary = make_summary("incomplete", budget_bytes=None, baseline_cost_ns=None)
    text = shown(tables.run_table(summary_document(summary)))
    assert "unlimited" in text
    assert "engine" not in text


def test_a_sweep_is_a_row_a_run_in_the_order_given(make_summary):
    runs = [
        summary_document(make_summary(outcome, ratio=ratio))
        for outcome, ratio in (("ok", 0.3), ("oom", 0.1), ("thrashed", 0.2))
    ]
    (table,) = sweep_tables(runs)
    lines = [line.split("│") for line in shown(table).splitlines() if line.startswith("│")]
    assert [line[3].strip() for line in lines] == ["ok", "oom", "thrashed"]
    assert [line[1].strip() for line in lines] == ["0.3", "0.1", "0.2"]


@pytest.mark.parametrize("expand", [False, True])
def test_a_long_stack_keeps_its_ends_and_what_adds_bytes(expand, make_frontier):
    steps = [0] * 100
    steps[50] = 4096
    text = shown(tables.frontier_table(make_frontier(steps), expand))
    rows = [line for line in text.splitlines() if "conv" in line]
    if expand:
        assert len(rows) == 100
        assert "more that add nothing" not in text
    else:
        depths = [int(line.split("│")[1]) for line in rows]
        assert depths == [1, 2, 3, 4, 5, 6, 51, 95, 96, 97, 98, 99, 100]
        assert "44 more" in text
        assert "43 more" in text
    assert "4.0 KiB" in text


def test_bytes_by_state_add_up_before_the_eyes(make_frontier):
    text = shown(tables.state_table(make_frontier([1000, 2000])))
    for words in ("3,000 B", "3,007 B", "50 B", "3,027 B", "30 B"):
        assert words in text


def test_sets_and_operators_are_shown(make_diff):
    diff = make_diff()
    assert "0.4000" in shown(tables.sets_table(diff.sets))
    assert "1.5 us" in shown(tables.operators_table(diff))


def test_foreign_names_are_neither_markup_nor_control(
    nasty_name, make_frontier, make_diff, make_summary
):
    document = summary_document(make_summary(trace_name=nasty_name, policy=nasty_name))
    for table in (
        tables.run_table(document),
        *sweep_tables([document]),
        tables.frontier_table(make_frontier([5], name=nasty_name)),
        tables.operators_table(make_diff(name=nasty_name)),
    ):
        text = shown(table)
        assert all(line.isprintable() for line in text.splitlines())
        if nasty_name.startswith("["):
            assert nasty_name in text


def test_the_peak_is_shown_where_it_is_known(make_summary):
    document = summary_document(make_summary(peak_bytes=4096))
    assert "4,096 B" in shown(tables.run_table(document))
    assert "peak" not in shown(tables.run_table(summary_document(make_summary())))


def test_a_run_has_no_empty_header(make_summary):
    text = shown(tables.run_table(summary_document(make_summary())))
    assert "outcome" in text.splitlines()[2]


def test_a_sweep_of_budgets_has_no_column_of_ratios(make_summary):
    (table,) = sweep_tables([summary_document(make_summary(budget_bytes=b)) for b in (1000, 1100)])
    text = shown(table)
    assert "ratio" not in text
    rows = [line.split("│") for line in text.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows] == ["1,000", "1,100"]


def test_a_sweep_says_what_was_tried_and_no_more(make_summary):
    def sweep(*outcomes, semantics="simrd"):
        ratios = (0.5, 0.52, 0.54)
        pairs = zip(outcomes, ratios, strict=False)
        runs = [make_summary(o, ratio=r, semantics=semantics) for o, r in pairs]
        return sweep_words(map(summary_document, runs))

    assert sweep("ok", "ok", "oom") == [
        "by hand under lru, at the 3 budgets tried: ok at 0.5 to 0.52, oom at 0.54."
    ]
    assert sweep("ok") == ["by hand under lru, at the budget tried: ok at 0.5."]
    assert sweep("ok", semantics="toy") == [
        "by hand under lru (with toy semantics), at the budget tried: ok at 0.5."
    ]


def test_one_step_that_is_left_out_adds_nothing(make_frontier):
    text = shown(tables.frontier_table(make_frontier([1] * 6 + [0] + [1] * 23)))
    assert "1 more that adds nothing" in text
