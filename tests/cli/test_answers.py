"""What people read: an answer in a sentence first, then tables, in any terminal."""

from pathlib import Path

import pytest

from dtrdiag.rendering.answers import next_words

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"

ASKS = {
    "traces list": "18 of the 26 known traces (18 bundled, 8 public) are on this machine.",
    "traces info chain-64": "chain-64 is a step of 129 ops that takes ",
    "run recurrent-16 -r 0.55": "recurrent-16 under dtr, at a budget of ",
    "run chain-64": "chain-64 under dtr, without a budget: it finishes",
    "sweep chain-64 --ratios 0.5 -j 1": "chain-64 under dtr, at the budget tried: ok at 0.5.",
    "map chain-64 --from 0.5 --to 0.5 -j 1": "chain-64 under dtr, budgets from ",
    "oom recurrent-16 -r 0.55": "Out of memory at op 44 (addmm): it needs ",
    "oom FOREIGN": "Out of memory at op 4 (k): it needs 45 B",
    "diff WORKS FAILS": "Run a, under dtr at a budget of ",
    "chains FAILS": "145 evictions under pressure hit 128 storages: 17 of these ",
    "chains FOREIGN": "1 eviction under pressure hit 1 storage: ",
    "replay FAILS": "A run of recurrent-16 under dtr, which ran out of memory.",
    "replay WORKS": "A run of recurrent-16 under dtr, which finished.",
    "replay FOREIGN": "A run of five-ops under lru (with toy semantics)",
    "replay FAILS --verify": "The log keeps every rule: ",
    "replay FAILS --from 3 --to 5": "Events 3 to 5 of a run of recurrent-16 under dtr: ",
    "replay FOREIGN --from 3 --to 3": "Event 3 of a run of five-ops under lru (with toy sem",
    "verify WORKS --trace recurrent-16": "The log is a true record of a run of the trace: ",
    "graph FAILS": "recurrent-16 after event ",
    "graph FOREIGN": "five-ops under lru (with toy semantics) after event ",
    "doctor": "Everything that dtrdiag needs is here.",
    "export chain-64 -r 0.5 --to csv -o x.csv": "",
}


@pytest.fixture
def asked(dtrdiag, works, fails):
    """Asks a question in words and wants an answer."""
    files = {"WORKS": works, "FAILS": fails, "FOREIGN": FOREIGN}

    def ask(words, *more):
        answer = dtrdiag(*(files.get(word, word) for word in words.split()), *more)
        assert (answer.status, answer.err) == (0, "")
        return answer.out

    return ask


@pytest.mark.parametrize("words", ASKS)
def test_the_first_line_is_the_answer(asked, words):
    first = asked(words).splitlines()[0]
    assert first.startswith(ASKS[words])
    assert first.endswith((".", ".)"))


@pytest.mark.parametrize("words", ["replay CUT --verify", "verify CUT --trace chain-64"])
def test_of_a_cut_log_only_that_is_said(dtrdiag, here, small, words):
    lines = small.read_bytes().splitlines(keepends=True)
    (here / "cut.jsonl").write_bytes(b"".join(lines[:40]))
    answer = dtrdiag(*words.replace("CUT", "cut.jsonl").split())
    assert answer.status == 1
    assert answer.out.startswith("The log is cut short: ")
    assert "40 events" in answer.out.splitlines()[0]


def test_a_log_that_is_cut_and_wrong_breaks_rules(dtrdiag, here, small):
    lines = small.read_bytes().splitlines(keepends=True)
    wrong = [line.replace(b'"fits":true', b'"fits":false') for line in lines[:40]]
    (here / "cut.jsonl").write_bytes(b"".join(wrong))
    assert dtrdiag("replay", "cut.jsonl", "--verify").out.startswith("The log breaks rules: ")


def test_a_graph_tells_how_much_is_in_memory(asked):
    assert "3 of these storages, 90 B of 165 B, are in memory." in asked("graph FOREIGN")


@pytest.mark.parametrize(
    ("trace", "ratios", "said"),
    [
        ("recurrent-16", "0.5,0.55", "it finishes at 0.5, and runs out of memory at 0.55."),
        ("recurrent-16", "0.55,0.5", "it finishes at 0.5, and runs out of memory at 0.55."),
        ("recurrent-16", "0.5,0.6", "it costs 1.3539x at 0.5, and 2.3196x at 0.6."),
        ("recurrent-16", "0.4,0.45", "It finishes at none of them."),
    ],
)
def test_a_sweep_tells_what_is_surprising(answers, trace, ratios, said):
    assert said in answers("sweep", trace, "--ratios", ratios, "-j", 1).out


@pytest.mark.parametrize(
    ("trace", "ratios"), [("chain-64", "0.5,0.6"), ("recurrent-16", "0.5"), ("recurrent-16", "0.4")]
)
def test_a_sweep_without_a_surprise_tells_none(answers, trace, ratios):
    out = answers("sweep", trace, "--ratios", ratios, "-j", 1).out
    assert "more memory" not in out
    assert "none of them" not in out


def test_a_run_tells_which_verb_says_more(answers):
    out = answers("run", "recurrent-16", "-r", "0.55", "-o", "x.jsonl").out
    assert out.endswith("\nThe log is in x.jsonl.\ndtrdiag oom x.jsonl says why.\n")
    assert "says why" not in answers("run", "chain-64").out
    assert next_words({"outcome": "thrashed"}, "a.jsonl") == ["dtrdiag chains a.jsonl says why."]


def test_what_is_missing_but_not_needed_is_told(answers, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    second = answers("doctor").out.splitlines()[1]
    assert "graphviz's `dot`, for pictures of graphs" in second
    assert "8 public traces (dtrdiag traces fetch)" in second


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_tables_of_chains_say_of_how_many_and_cut_no_number(asked, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = asked("chains WORKS", "--top", "3")
    text = " ".join(out.split())
    for title in (
        "rematerialisation by operator",
        "steps of the schedule",
        "storages brought back",
    ):
        assert f"{title}: the dearest 3 of " in text
    assert "…" not in out


def test_a_number_keeps_its_unit_in_80_columns(asked, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    row = next(line for line in asked("chains recurrent-16 -r 0.6").splitlines() if "305.2" in line)
    cells = [cell.strip() for cell in row.split("│")]
    assert {"305.2 us", "48.5 MiB", "19.5 MiB"} <= set(cells)


def test_loops_that_were_not_looked_for_are_admitted(asked):
    assert "in turn (there may be more loops)" in asked("chains recurrent-16 -r 0.6 --top 2")
    assert "loops)" not in asked("chains recurrent-16 -r 0.6 --top 500")


def test_tables_of_chains_that_are_whole_say_nothing(asked):
    out = asked("chains WORKS", "--top", "1000")
    assert "the dearest" not in out.partition("cost of rematerialisation")[2]
    assert "more loops" not in out


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("words", [words for words in ASKS if "sweep" not in words])
def test_no_line_is_wider_than_the_terminal(asked, monkeypatch, words, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = asked(words)
    # A path or a command is never broken.
    wide = [line for line in out.splitlines() if len(line) > columns and " " in line.strip()]
    assert [line for line in wide if not line.startswith(" ")] == []
