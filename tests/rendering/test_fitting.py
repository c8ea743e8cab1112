"""Do tables keep their numbers whole, and fall back where they cannot?"""

# mypy: no-check-untyped-defs

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dtrdiag.rendering.fidelity import overhead_table, points_table
from dtrdiag.rendering.fitting import FOLDED, fit

NAME = "aten::native_batch_norm_backward_with_a_long_name"


def table(fold=True):
    made = Table()
    made.add_column("operator", overflow="fold" if fold else "ellipsis")
    for name in ("budget", "evicted for room", "evicted in all"):
        made.add_column(name, justify="right")
    made.add_row(Text(NAME), "1,006,117,915", "326", "548")
    return made


def shown(made, width):
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(made)
    return stream.getvalue()


@pytest.mark.parametrize("width", range(20, 130))
def test_what_fits_shows_every_number_and_every_letter(width):
    made = table()
    if not fit(made, width):
        return
    text = shown(made, width)
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    for number in ("1,006,117,915", "326", "548"):
        assert number in text
    name = "".join(line.split("│")[1].strip() for line in text.splitlines() if "│" in line)
    assert name == NAME


def test_a_name_is_broken_only_where_it_has_to_be():
    made = Table()
    made.add_column("operator", overflow="fold")
    made.add_column("what it does in words")
    made.add_row("avg_pool2d_backward", "a sentence that would have all of the room there is")
    assert fit(made, 50)
    assert "avg_pool2d_backward" in shown(made, 50)
    assert fit(made, 28)
    assert "avg_pool2d_backward" not in shown(made, 28)


def test_a_name_is_broken_between_its_parts():
    made = Table()
    made.add_column("operator", overflow="fold")
    made.add_column("what it does in words")
    name = "aten._scaled_dot_product_flash_attention_for_cpu_backward.default"
    made.add_row(Text(f"480 ({name})", style="bold"), "a sentence that would have all of the room")
    assert fit(made, 60)
    lines = [line.split("│")[1].strip() for line in shown(made, 60).splitlines() if "│" in line]
    assert "".join(lines).replace(" ", "") == f"480({name})"
    assert all(line == "480" or line[-1] in "._)" for line in lines if line)


def test_names_fold_where_they_may_and_need_room_where_not():
    # Without folding: the name, a number, two headers of one word each, padding and box.
    assert fit(table(), 70)
    assert not fit(table(fold=False), 70)


def test_what_does_not_fit_is_left_as_it_is():
    made = table()
    assert not fit(made, 40)
    assert all(column.width is None for column in made.columns)


def test_numbers_do_not_fold():
    made = Table()
    made.add_column("n", overflow="fold")
    made.add_row("1,234,567,890,123")
    assert not fit(made, FOLDED[-1] + 4)
    assert fit(made, 17 + 4)


def test_a_wide_table_is_as_wide_as_its_lines():
    made = table()
    assert fit(made, 500)
    assert [column.width for column in made.columns] == [len(NAME), 13, 16, 14]


def test_tables_of_live_runs_fit_80_columns():
    run = {"outcome": "thrashed", "remats": 123_456, "evictions": {"total": 123_456}}
    overhead = {
        "roofline": 10.1234, "medians": 10.1234, "kernels": 10.1234, "wall_least": 123.45,
        "cpu": 123.45, "live_ns": 10**9, "eager_ns": 10**9,
    }  # fmt: skip
    point = {
        "policy": "dtr-local", "ratio": 0.5, "budget": 12_723_415_556, "outcome": "thrashed",
        "simulated": run, "live": run, "common_prefix": 123_456, "equal": False,
        "overhead": overhead,
    }  # fmt: skip
    for table in (points_table, overhead_table):
        assert not fit(table({"points": [point]}), 80)
        assert fit(table({"points": [point]}, narrow=True), 80)
