import json
import shlex
import shutil

import pytest

from dtrdiag.cli import quickstart
from dtrdiag.cli.quickstart import FOLDER, find_pair
from dtrdiag.errors import UsageError
from dtrdiag.log import open_log, verify
from dtrdiag.simulator import RunConfig, simulate
from dtrdiag.trace.catalog import resolve


@pytest.fixture(scope="session")
def found():
    """What the search for two budgets of a smaller trace finds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quickstart, "RATIOS", (0.6, 0.55, 0.5))
        return find_pair(resolve("recurrent-16"))


@pytest.fixture
def small(monkeypatch, found):
    """For tests of what is made of two budgets: of a smaller trace, and searched for once."""
    monkeypatch.setattr(quickstart, "TRACE", "recurrent-16")
    monkeypatch.setattr(quickstart, "find_pair", lambda trace: found)


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    """Where one quickstart of the smaller trace is kept for all tests that ask for one."""
    return tmp_path_factory.mktemp("quickstart")


@pytest.fixture
def done(small, answers, here, kept):
    """The document of a quickstart of the smaller trace, whose files are in this folder."""
    if not (kept / "document.json").exists():
        document = answers("quickstart", "--json").out
        shutil.copytree(here / FOLDER, kept / FOLDER)
        (kept / "document.json").write_text(document)
    else:
        shutil.copytree(kept / FOLDER, here / FOLDER)
    return json.loads((kept / "document.json").read_text())


def test_it_finds_two_budgets_a_byte_apart_that_differ():
    trace = resolve(quickstart.TRACE)
    _, pair = find_pair(trace)
    works, fails = pair.works_bytes, pair.fails_bytes
    assert fails - works == 1
    for budget, outcome in ((works, "ok"), (fails, "oom")):
        assert simulate(trace, RunConfig("dtr", budget)).end.outcome == outcome


@pytest.mark.usefixtures("small")
def test_it_explains_them(done):
    assert done["schema"] == "dtrdiag.quickstart/1"
    assert done["oom"]["budget"] == done["pair"][1]
    assert done["oom"]["depth"] > 1
    assert done["diff"]["first_divergence"]["kind"] == "fit"
    assert all(entry["ok"] for entry in done["verified"].values())
    assert {run["outcome"] for run in done["runs"]} == {"ok", "oom"}


@pytest.mark.usefixtures("small")
def test_it_leaves_the_files_that_it_names(done, here):
    assert sorted(done["files"]) == sorted(
        str(p.relative_to(here)) for p in here.glob(f"{FOLDER}/*")
    )
    for name in ("works.jsonl", "fails.jsonl"):
        assert verify(open_log(here / FOLDER / name)).ok
    text = (here / FOLDER / "findings.txt").read_text()
    assert "One byte more, and it runs out of memory." in text
    for path in done["files"]:
        assert path in text or path.endswith("oom.dot")
    summary = json.loads((here / FOLDER / "summary.json").read_bytes())
    assert summary["pair"] == done["pair"]
    assert (here / FOLDER / "oom.svg").exists() == (shutil.which("dot") is not None)


@pytest.mark.usefixtures("small")
def test_the_commands_that_it_suggests_work(dtrdiag, answers, here):
    for command in answers("quickstart", "--json").json["next"]:
        words = shlex.split(command)
        arguments = words[words.index("-m") + 2 :] if "-m" in words else words[1:]
        answer = dtrdiag(*arguments)
        assert (command, answer.status, answer.err) == (command, 0, "")
        assert answer.out


def test_people_are_told_in_words(answers):
    out = answers("quickstart").out
    for words in (
        "At a budget of 5,539,814,503 B the run finishes.",
        "One byte more, and it runs out of memory.",
        "Out of memory at op 888 (aten._log_softmax_backward_data.default)",
        "fits in b with 0 B to spare and misses in a by 1 B",
        "every rule kept",
        "dtrdiag-demo/findings.txt",
        "oom dtrdiag-demo/fails.jsonl --expand",
    ):
        assert words in out
    assert "RULES BROKEN" not in out


@pytest.mark.usefixtures("small")
def test_it_may_run_again(answers, done, here):
    before = {path.name: path.read_bytes() for path in here.glob(f"{FOLDER}/*.jsonl")}
    answers("quickstart")
    assert before == {path.name: path.read_bytes() for path in here.glob(f"{FOLDER}/*.jsonl")}


@pytest.mark.usefixtures("small")
def test_into_another_folder(answers, here):
    answers("quickstart", "-o", "a/b")
    assert (here / "a" / "b" / "findings.txt").is_file()
    assert "a/b/fails.jsonl --expand" in (here / "a" / "b" / "findings.txt").read_text()


@pytest.mark.usefixtures("small")
def test_a_file_of_someone_else_is_not_replaced(answers, refuses, here):
    (here / FOLDER).mkdir()
    (here / FOLDER / "oom.dot").write_text("mine")
    line = refuses("quickstart")
    assert "was not made by this command; --force replaces it" in line
    answers("quickstart", "--force")
    assert (here / FOLDER / "oom.dot").read_text().startswith("digraph")


@pytest.mark.usefixtures("small")
def test_a_file_that_was_changed_is_not_replaced(done, refuses, here):
    (here / FOLDER / "findings.txt").write_text("my notes")
    assert "was changed since this command made it" in refuses("quickstart")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("content", ["{", "[]", '{"schema": "else/1", "made": {}}'])
def test_a_foreign_summary_is_not_replaced(refuses, here, content):
    (here / FOLDER).mkdir()
    (here / FOLDER / "summary.json").write_text(content)
    assert "was not made by this command" in refuses("quickstart")


@pytest.mark.usefixtures("small")
def test_other_files_in_the_folder_stay(done, answers, here):
    (here / FOLDER / "notes.txt").write_text("mine")
    answers("quickstart")
    assert (here / FOLDER / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("small")
def test_a_file_where_the_folder_should_be(refuses, here):
    (here / FOLDER).write_text("mine")
    assert refuses("quickstart") == f"is a file, not a folder ({FOLDER})"


@pytest.mark.usefixtures("small")
def test_the_page_is_the_first_file_to_open(done, here):
    text = (here / FOLDER / "findings.txt").read_text()
    first = text.partition("Files\n\n")[2].splitlines()[0]
    assert first == "  dtrdiag-demo/report.html: both runs with charts, to be opened in a browser"
    page = (here / FOLDER / "report.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "dtrdiag report dtrdiag-demo/works.jsonl dtrdiag-demo/fails.jsonl -o F.html" in page


@pytest.mark.usefixtures("small")
def test_without_what_draws_a_page_there_is_none(answers, here, monkeypatch):
    def refuse():
        raise UsageError("jinja2 is not installed")

    monkeypatch.setattr(quickstart, "check_libraries", refuse)
    out = answers("quickstart").out
    assert not (here / FOLDER / "report.html").exists()
    assert "report.html" not in out
    assert "(the extra `report`) there is a page with charts as well" in out


@pytest.mark.usefixtures("small")
def test_without_dot_the_frontier_is_text(answers, here, monkeypatch):
    monkeypatch.setenv("PATH", str(here))
    out = answers("quickstart").out
    assert "install graphviz" in out
    assert not (here / FOLDER / "oom.svg").exists()
    assert (here / FOLDER / "oom.dot").is_file()
