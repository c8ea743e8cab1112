"""Every command and snippet that the README and the docs show does what it is shown to do."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dtrdiag.cli import main
from dtrdiag.simulator.policies import policies, unregister
from dtrdiag.trace.public import PUBLIC_TRACES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PUBLIC_LOGS = ("resnet-works.jsonl", "resnet-fails.jsonl")
"""Logs of runs of public traces, which the page on ResNet-32 makes."""
MADE_ELSEWHERE = ("make ", "pip install")
"""Set-up commands: CI runs them, and `test_make_targets_are_there` looks at them."""
HAS_TORCH = importlib.util.find_spec("torch") is not None


def blocks(document, language):
    return [body for kind, body in FENCE.findall(document.read_text()) if kind == language]


def commands(document):
    return [command for body in blocks(document, "console") for command in commands_in(body)]


def commands_in(body):
    lines = body.splitlines()
    shown = [line[2:].partition("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in shown if not line.startswith(MADE_ELSEWHERE)]


def name_of(document):
    return document.relative_to(ROOT).as_posix()


def test_all_console_lines_are_commands():
    for document in DOCUMENTS:
        for body in blocks(document, "console"):
            assert all(line.startswith("$ ") for line in body.splitlines() if line), document


READ_TOGETHER = [
    [ROOT / "README.md", ROOT / "docs" / "cli.md"],
    [ROOT / "docs" / "explanation" / f"{page}.md" for page in ("dtr", "intervals", "evidence")],
]
"""Whoever has read the first goes on with the others, in the same folder."""
ALONE = [d for d in DOCUMENTS if not any(d in together for together in READ_TOGETHER)]
FOLDERS = READ_TOGETHER + [[d] for d in ALONE if commands(d) or blocks(d, "python")]
SHOWN = re.compile(
    r"""^```(console|python|(?:json|toml)(?=\ title))          # run, or kept
    (?:\ title="([\w.-]+)")?\n(.*?)^```$
    (?:\s*^```text\n(.*?)^```$)?                               # and what it prints""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


DEMO = "dtrdiag quickstart"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """What the demo says, and the folder that it leaves; documents that show it share one run."""
    place = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", *DEMO.split()],
        cwd=place,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, place / "dtrdiag-demo"


@pytest.mark.parametrize(
    "documents", FOLDERS, ids=lambda documents: "+".join(map(name_of, documents))
)
def test_what_is_shown_runs_in_order(documents, tmp_path, monkeypatch, capfd, request):
    """In one folder, as a reader would; what is about public traces only where these are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    # One process unless `-j` says more: workers take longer to start than small examples to run.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    public, before = has_public(documents, request), {policy.name for policy in policies()}
    try:
        for document in documents:
            for language, file, body, printed in SHOWN.findall(document.read_text()):
                if file:
                    Path(file).write_text(body)
                    continue
                if language == "python":
                    if not public and any(log in body for log in PUBLIC_LOGS):
                        continue
                    said = run_snippet(body, document, capfd)
                else:
                    said = run_console(body, public, capfd, request)
                if said is not None:
                    assert_prints(said, printed, document)
    finally:
        for policy in policies():
            if policy.name not in before:
                unregister(policy.name)


def has_public(documents, request):
    """Whether the public traces are here, if any command is about them."""
    words = " ".join(command for document in documents for command in commands(document)).split()
    if any(word in PUBLIC_TRACES for word in words):
        try:
            request.getfixturevalue("traces_archive")
        except pytest.skip.Exception:
            return False
    return True


def run_console(body, public, capfd, request):
    """What its last command prints; None where that was not run."""
    said = None
    for command in commands_in(body):
        said = None
        if command.startswith(("dtrdiag record ", "dtrdiag fidelity ")) and not HAS_TORCH:
            return None  # what follows is about what it makes
        names = set(command.split())
        about = names & set(PUBLIC_TRACES) or any(file in names for file in PUBLIC_LOGS)
        if about and not public:
            continue
        if command == "dtrdiag traces fetch":  # the network; tests/trace has it with a stand-in
            continue
        if command == DEMO:
            said, left = request.getfixturevalue("demo")
            shutil.copytree(left, left.name)
            continue
        said = run_command(command, capfd)
    return said


def run_snippet(body, document, capfd):
    if not Path("run.jsonl").exists():
        shutil.copy(ROOT / "tests" / "data" / "foreign-runtime.jsonl", "run.jsonl")
    capfd.readouterr()
    exec(compile(body, str(document), "exec"), {})  # noqa: S102 - our own docs
    return capfd.readouterr().out


def assert_prints(said, printed, document):
    """Each part of an excerpt stands in the answer, in this order, but for how lines are broken."""
    rest = " ".join(said.split())
    for part in re.split(r"^\.\.\.\n", printed, flags=re.MULTILINE):
        words = " ".join(part.split())
        assert words in rest, f"{document} shows\n{part}\nbut printed is\n{said}"
        rest = rest.partition(words)[2] if words else rest


def run_command(command, capfd):
    """Within this process, which has the modules loaded already: a command takes no start-up."""
    program, *arguments = command.split()
    assert program in ("dtrdiag", "python"), f"what is {program}?"
    if ">" in arguments:
        arguments = arguments[: arguments.index(">")]
    if program == "python":
        said = run_module(command, arguments)
    else:
        capfd.readouterr()
        status = main(arguments)
        said, wrong = capfd.readouterr()
        assert status == 0, f"{command}\n{said[-2000:]}\n{wrong[-2000:]}"
        assert "Traceback" not in wrong
    assert said.strip() or "-o" in arguments
    return said


def run_module(command, arguments):
    if arguments[0].endswith(".py"):
        pytest.fail(f"a script is shown that no test can find: {command}")
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    assert "Traceback" not in done.stderr
    return done.stdout


def test_the_readme_tells_what_the_demo_prints(demo):
    said, folder = demo
    readme = (ROOT / "README.md").read_text()
    excerpt = next(b for b in blocks(ROOT / "README.md", "text") if "One byte more" in b)
    for sentence in excerpt.split("...\n"):
        assert " ".join(sentence.split()) in " ".join(said.split())
    for file in ("works.jsonl", "fails.jsonl"):
        assert (folder / file).exists()
        assert file in readme


def test_make_targets_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for document in DOCUMENTS:
        for target in re.findall(r"(?:`|^\$ )make ([a-z-]+)", document.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (document, target)


def test_links_between_documents_lead_somewhere():
    """Pages that are made with the site are looked for there, by `test_site.py`."""
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
            place = (document.parent / target).resolve()
            made = place.is_relative_to(ROOT / "docs" / "reference")
            if not target.startswith("http") and not made:
                assert place.exists(), (document, target)
