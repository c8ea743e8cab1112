"""Does the page of a run say what its log says, for every way in which a run ends?"""

import re
import shutil
from pathlib import Path

import attrs
import pytest

from dtrdiag.analyses import find_chains, pinned_frontier, run_timeline, summarise
from dtrdiag.errors import LogError
from dtrdiag.events import records as r
from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import open_log, read_events
from dtrdiag.rendering.pages import frontierparts
from dtrdiag.rendering.pages.page import page_html
from dtrdiag.rendering.pages.parts import Chart, Commands, Drawing, Table, Words
from dtrdiag.rendering.pages.runcommands import commands_section
from dtrdiag.rendering.pages.runpage import run_page
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"
HOSTILE = ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a\u202eb"]
MADE_BY = "dtrdiag report recurrent-16 (dtrdiag 0)"


def written(path, events):
    with JsonlWriter(path) as writer:
        for event in events:
            writer(event)
    return open_log(path)


def simulated(path, trace, config):
    hooks = Hooks()
    with JsonlWriter(path) as writer:
        hooks.subscribe(writer)
        simulate(resolve(trace), config, hooks)
    return open_log(path)


@pytest.fixture(scope="module")
def oom(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "oom.jsonl"
    return simulated(path, "recurrent-16", RunConfig("dtr", 38_359_636))


@pytest.fixture(scope="module")
def oom_page(oom):
    return run_page(oom, MADE_BY)


@pytest.fixture(scope="module")
def thrash_page(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "thrashed.jsonl"
    config = RunConfig("dtr", 40_004_434, overhead_limit=1.2)
    return run_page(simulated(path, "residual-12", config), MADE_BY)


def parts_of(page, kind):
    return [part for section in page.sections for part in section.parts if isinstance(part, kind)]


def text_of(page):
    words = [page.title, *page.warnings, *page.answer]
    words += [text for fact in page.facts for text in fact]
    for section in page.sections:
        words.append(section.heading)
    for part in parts_of(page, Words):
        words += part.paragraphs
    for part in parts_of(page, Table):
        words += [part.caption, *(cell for row in part.rows for cell in row)]
    return "\n".join(words)


def test_an_out_of_memory_stop_is_explained_to_the_byte(oom, oom_page):
    frontier = pinned_frontier(oom)
    answer = " ".join(oom_page.answer)
    for size in (
        frontier.pinned_bytes, frontier.locked_bytes, frontier.evictable_bytes,
        frontier.requested_bytes, frontier.budget_bytes, frontier.shortfall_bytes,
        frontier.passes_at_bytes,
    ):  # fmt: skip
        assert f"{size:,} B" in answer
    sum_of = re.search(r"([\d,]+) B pinned \+ ([\d,]+) B locked \+ ([\d,]+) B evictable", answer)
    parts = [int(part.replace(",", "")) for part in sum_of.groups()]
    assert sum(parts) + frontier.requested_bytes == frontier.budget_bytes + frontier.shortfall_bytes
    assert f"op {frontier.op} ({frontier.op_name})" in answer
    assert oom_page.title.endswith("out of memory")


def test_facts_are_those_of_the_summary(oom, oom_page):
    found, facts = summarise(oom), dict(oom_page.facts)
    assert facts["budget"].startswith("38,359,636 B")
    assert facts["ops executed"] == f"{found.computes:,} first, {found.remats:,} again"
    assert facts["evictions"].startswith(f"{found.evictions.total:,}: ")
    assert facts["most memory in use"].startswith(f"{found.max_memory_bytes:,} B")
    assert f"{found.interval_hi_bytes:,} B" in facts["same decisions for budgets"]
    assert "interventions" not in facts
    assert "semantics" not in facts


def test_charts_hold_the_timeline(oom, oom_page):
    found = run_timeline(oom)
    charts = {chart.id: chart for chart in parts_of(oom_page, Chart)}
    assert list(charts) == ["memory", "evictions", "remats", "depth"]
    for chart in charts.values():
        assert (chart.group, chart.domain) == ("timeline", (1.0, float(found.x2[-1])))
        assert chart.columns["x"] == found.x.tolist()
    memory = charts["memory"]
    highest = int(found.high_bytes.argmax())
    assert memory.columns["high_text"][highest].startswith(f"{found.high_bytes.max():,} B")
    assert memory.more["budget"]["text"] == ["budget 36.6 MiB"]
    assert memory.more["stop"]["text"][0].startswith("out of memory")
    tops = [memory.columns[state][highest] for state in ("pinned", "locked", "evictable")]
    assert tops == sorted(tops)
    assert tops[-1] == pytest.approx(found.high_bytes.max() / (1 << 20), rel=1e-5)
    assert max(charts["depth"].columns["depth"]) == found.depth.max()
    legends = [layer["encoding"]["color"]["datum"] for layer in charts["evictions"].spec["layer"]]
    assert legends == ["to make room (upwards)", "on release (downwards)"]
    assert charts["remats"].columns["remats"].count("none") == (found.remats == 0).sum()


def test_the_graph_tells_of_each_node(oom, oom_page):
    (drawing,) = parts_of(oom_page, Drawing)
    frontier = pinned_frontier(oom)
    nodes = set(re.findall(r'\bid=("?)([a-z]+_?\d*)\1', drawing.source))
    assert {node for _, node in nodes} == set(drawing.details)
    storages = {storage.id: storage for storage in frontier.storages}
    shown = [int(node[2:]) for node in drawing.details if node.startswith("s_")]
    assert len(shown) > 3
    for storage in shown:
        details = dict(drawing.details[f"s_{storage}"])
        assert details["size"].startswith(f"{storages[storage].bytes:,} B")
        assert details["state"] == "locked"
        assert f"op {storages[storage].held_by[0]} " in details["held by"]


def test_the_history_of_a_storage_is_that_of_the_log(oom, oom_page):
    (drawing,) = parts_of(oom_page, Drawing)
    node = max(
        (node for node in drawing.details if node.startswith("s_")),
        key=lambda node: len(drawing.details[node]),
    )
    storage = int(node[2:])
    moves = [
        event.seq
        for event in oom
        if (isinstance(event, r.Evict) and event.storage == storage)
        or (isinstance(event, r.Compute | r.Rematerialise) and storage in event.resident)
    ]
    told = [
        int(label.rpartition(" ")[2].replace(",", ""))
        for label, _ in drawing.details[node]
        if label.startswith("step ")
    ]
    assert len(told) > 1
    assert told == moves[-len(told) :]
    details = dict(drawing.details[node])
    came = sum(isinstance(e, r.Rematerialise) and storage in e.resident for e in oom)
    assert details["computed again"] == ("never" if not came else f"{came} time{'s'[: came > 1]}")


def test_without_graphviz_there_is_the_text(oom, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert shutil.which("dot") is None
    frontier = pinned_frontier(oom)
    (drawing,) = [
        part
        for part in frontierparts.frontier_section(frontier, {}).parts
        if isinstance(part, Drawing)
    ]
    assert drawing.svg is None
    assert drawing.source.startswith("digraph frontier")


def test_the_stack_is_a_table(oom, oom_page):
    (stack,) = [t for t in parts_of(oom_page, Table) if t.caption.startswith("Pending stack")]
    frontier = pinned_frontier(oom)
    assert stack.caption == f"Pending stack, {frontier.depth} deep"
    assert stack.rows[0][:3] == ("1", str(frontier.stack[0].op), frontier.stack[0].name)
    assert stack.rows[-1][1] == str(frontier.op)


def test_chains_and_costs_are_those_of_the_analysis(oom, oom_page):
    found = find_chains(oom)
    tables = {table.caption: table for table in parts_of(oom_page, Table)}
    dearest = next(t for name, t in tables.items() if name.startswith("Storages brought back"))
    assert dearest.rows[0][0] == str(found.chains[0].storage)
    asked = tables["Recomputing by who asked for it"]
    counts = [int(row[1].replace(",", "")) for row in asked.rows]
    assert counts[-1] == sum(counts[:-1]) == found.cost.total.remats
    caused = tables["Recomputing by what had made it needed"]
    counts = [int(row[1].replace(",", "")) for row in caused.rows]
    assert counts[-1] == sum(counts[:-1]) == found.cost.total.remats
    chain = next(t for name, t in tables.items() if name.startswith("The chain of storage"))
    assert len(chain.rows) == min(10, sum(found.chains[0].evictions.values()))


def test_commands_make_the_run_again_and_go_on(oom, oom_page):
    lines = [line for part in parts_of(oom_page, Commands) for line in part.lines]
    seq = pinned_frontier(oom).asked_back.loss.seq
    assert lines == [
        f"dtrdiag whatif recurrent-16 -p dtr -b 38359636 --forbid {seq}",
        "dtrdiag run recurrent-16 -p dtr -b 38359636 -o run.parquet",
        "dtrdiag oom run.parquet",
        "dtrdiag chains run.parquet",
        f"dtrdiag replay run.parquet --at {pinned_frontier(oom).seq}",
        f"dtrdiag whatif run.parquet --forbid {seq}",
        "dtrdiag diff recurrent-16 -p dtr -b 38359636 -b 38359635",
    ]
    (beside,) = [part for part in parts_of(oom_page, Commands) if "nearest" in part.words]
    assert beside.words.endswith(": 1 B less.")


@pytest.mark.parametrize(
    ("low", "high", "other", "words"),
    [
        (90, 200, 89, "11 B less"),
        (50, 103, 103, "3 B more"),
        (98, 103, 103, "3 B more"),
        (1, 200, 200, "100 B more"),
        (70, None, 69, "31 B less"),
    ],
)
def test_the_nearest_budget_is_taken_on_either_side(oom, low, high, other, words):
    found = summarise(oom)
    found = attrs.evolve(
        found,
        header=attrs.evolve(found.header, budget_bytes=100),
        interval_lo_bytes=low,
        interval_hi_bytes=high,
    )
    last = commands_section(found, "run.jsonl", None).parts[-1]
    assert last.lines[0].endswith(f"-b 100 -b {other}")
    assert words in last.words


def test_what_was_asked_back_first_is_told(oom, oom_page):
    step = pinned_frontier(oom).asked_back
    lost = next(e for e in oom if e.seq == step.loss.seq)
    assert isinstance(lost, r.Evict)
    assert lost.storage == step.storage
    assert f"asked back storage {step.storage}, made by op {step.op}" in text_of(oom_page)
    told = f"evicted at event {lost.seq:,} (step {step.loss.step:,} of the schedule) to make room"
    assert f"{told} for op {lost.op} (" in text_of(oom_page)
    assert f"out of {lost.pool_size} candidates, with a score of {lost.score:.6g}" in (
        text_of(oom_page)
    )
    (drawing,) = parts_of(oom_page, Drawing)
    assert dict(drawing.details[f"op_{step.op}"])["its result was"].startswith(told)
    origin = pinned_frontier(oom).origin
    assert "its result was" not in dict(drawing.details[f"op_{origin.op}"])


def test_a_stopped_run_says_where_it_thrashes(thrash_page):
    assert "stopped by the overhead limit" in thrash_page.answer[0]
    assert "It thrashes in step 435 of the schedule (batch_norm_backward)" in thrash_page.answer[1]
    assert not parts_of(thrash_page, Drawing)
    headings = [section.heading for section in thrash_page.sections]
    assert "Where it thrashes" in headings
    assert "Why it is out of memory" not in headings
    (memory, *_) = parts_of(thrash_page, Chart)
    band = memory.more["thrash"]
    assert band["x"][0] < band["x2"][0]
    (again, *_) = parts_of(thrash_page, Commands)
    assert "--overhead-limit 1.2" in again.lines[0]


def test_a_run_that_finishes_with_room_has_little_to_say(tmp_path):
    log = simulated(tmp_path / "ok.jsonl", "residual-12", RunConfig("dtr", 1 << 30))
    page = run_page(log, MADE_BY)
    assert "finishes with an overhead of 1.0000x" in page.answer[0]
    assert [chart.id for chart in parts_of(page, Chart)] == ["memory", "evictions"]
    assert [section.id for section in page.sections] == ["timeline", "commands"]
    (memory, _) = parts_of(page, Chart)
    assert "far above" in memory.words
    assert "budget" not in memory.more


def test_an_unlimited_run(tmp_path):
    page = run_page(simulated(tmp_path / "x.jsonl", "residual-12", RunConfig("dtr", None)), MADE_BY)
    assert dict(page.facts)["budget"] == "unlimited"
    (again, *_) = parts_of(page, Commands)
    assert again.lines == ("dtrdiag run residual-12 -p dtr -o run.parquet",)


def test_a_log_of_another_runtime():
    page = run_page(open_log(FOREIGN), MADE_BY)
    assert "90 B in use" in " ".join(page.answer)
    assert dict(page.facts)["runtime"] == "toy-runtime 0.3"
    lines = [line for part in parts_of(page, Commands) for line in part.lines]
    assert lines[0] == "dtrdiag oom foreign-runtime.jsonl"
    assert not any(" run " in line or " whatif " in line for line in lines)
    page_html(page)


@pytest.mark.parametrize("length", [1, 4, 20, 35])
def test_a_log_that_is_cut(tmp_path, length):
    page = run_page(written(tmp_path / "cut.jsonl", read_events(FOREIGN)[:length]), MADE_BY)
    assert "the log has no end" in page.title
    assert "without an end event" in page.answer[1]
    assert parts_of(page, Chart)
    page_html(page)


@pytest.mark.parametrize(
    "kinds",
    [
        (r.Materialise,), (r.FitCheck,), (r.Lock, r.Unlock), (r.Pin,), (r.Evict,),
        (r.OutOfMemory,), (r.OpDefined,), (r.Compute, r.Rematerialise), (r.End,),
    ],
    ids=lambda kinds: kinds[0].kind,
)  # fmt: skip
def test_a_log_without_some_kind_of_event(tmp_path, kinds):
    events = [event for event in read_events(FOREIGN) if not isinstance(event, kinds)]
    page = run_page(written(tmp_path / "less.jsonl", events), MADE_BY)
    assert page.answer
    page_html(page)
    if kinds == (r.OpDefined,):
        assert "no op event introduced" in text_of(page)


def test_a_log_that_contradicts_itself_is_told_of_before_anything_else(tmp_path):
    *events, end = read_events(FOREIGN)
    lying = attrs.evolve(end, remats=end.remats + 1)
    page = run_page(written(tmp_path / "lies.jsonl", [*events, lying]), MADE_BY)
    assert page.warnings == (
        "Careful: the log contradicts itself in what its last event counts: "
        f"remats is {lying.remats} there and {end.remats} by its events.",
    )
    html = page_html(page)
    assert html.index(page.warnings[0]) < html.index('<div class="answer">')
    assert not run_page(open_log(FOREIGN), MADE_BY).warnings


def test_what_is_no_log_is_refused(tmp_path):
    (tmp_path / "x.jsonl").write_text("{}\n")
    with pytest.raises(LogError):
        run_page(open_log(tmp_path / "x.jsonl"), MADE_BY)


def test_hostile_names_stay_text(tmp_path):
    events = []
    for event in read_events(FOREIGN):
        if isinstance(event, r.OpDefined):
            event = attrs.evolve(event, name=HOSTILE[event.op % 3] + str(event.op))
        elif isinstance(event, r.RunHeader):
            event = attrs.evolve(
                event, trace_name=HOSTILE[0], policy=HOSTILE[1], runtime=HOSTILE[2]
            )
        events.append(event)
    page = run_page(written(tmp_path / "hostile.jsonl", events), MADE_BY)
    assert HOSTILE[0] in page.title
    html = page_html(page)
    assert "alert(1)" in html
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\u202e" not in html


def test_the_same_log_gives_the_same_page(oom, oom_page):
    assert page_html(run_page(oom, MADE_BY)) == page_html(oom_page)
