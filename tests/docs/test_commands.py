"""Every command and snippet that the README and the docs show does what it is shown to do."""

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
MADE_ELSEWHERE = ("make ", "pip install")
"""Set-up commands: CI runs them, and `test_make_targets_are_there` looks at them."""


def blocks(document, language):
    return [body for kind, body in FENCE.findall(document.read_text()) if kind == language]


def commands(document):
    lines = [line for body in blocks(document, "console") for line in body.splitlines()]
    shown = [line[2:].partition("  #")[0].strip() for line in lines if line.startswith("$ ")]
    return [line for line in shown if not line.startswith(MADE_ELSEWHERE)]


def name_of(document):
    return document.relative_to(ROOT).as_posix()


def test_all_console_lines_are_commands():
    for document in DOCUMENTS:
        for body in blocks(document, "console"):
            assert all(line.startswith("$ ") for line in body.splitlines() if line), document


READ_TOGETHER = [ROOT / "README.md", ROOT / "docs" / "cli.md"]
"""Whoever has tried the README goes on with the command line, in the same folder."""
FOLDERS = [
    READ_TOGETHER,
    *([d] for d in DOCUMENTS if d not in READ_TOGETHER and commands(d)),
]


@pytest.mark.parametrize(
    "documents", FOLDERS, ids=lambda documents: "+".join(map(name_of, documents))
)
def test_commands_run_in_order(documents, tmp_path, request, monkeypatch, capfd):
    """In one folder, as a reader would; those on public traces only where these are."""
    shown = [command for document in documents for command in commands(document)]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    words = " ".join(shown).split()
    if any(word in PUBLIC_TRACES for word in words):
        try:
            request.getfixturevalue("traces_archive")
            public = True
        except pytest.skip.Exception:
            public = False
    for command in shown:
        if any(word in PUBLIC_TRACES for word in command.split()) and not public:
            continue
        if command == "dtrdiag traces fetch":  # the network; tests/trace has it with a stand-in
            continue
        run_command(command, capfd)


def run_command(command, capfd):
    """In this process: to start one for each of so many would take longer than most answers."""
    program, *arguments = command.split()
    assert program in ("dtrdiag", "python"), f"what is {program}?"
    if ">" in arguments:
        arguments = arguments[: arguments.index(">")]
    if program == "python":
        if arguments[0].endswith(".py"):
            pytest.fail(f"a script is shown that no test can find: {command}")
        assert arguments[:2] == ["-m", "dtrdiag"], command
        arguments = arguments[2:]
    capfd.readouterr()
    status = main(arguments)
    out, err = capfd.readouterr()
    assert status == 0, f"{command}\n{out[-2000:]}\n{err[-2000:]}"
    assert "Traceback" not in err
    assert out.strip() or "-o" in arguments


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d, "python")], ids=name_of)
def test_snippets_run(document, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests" / "data" / "foreign-runtime.jsonl", tmp_path / "run.jsonl")
    before = {policy.name for policy in policies()}
    try:
        for body in blocks(document, "python"):
            exec(compile(body, str(document), "exec"), {})  # noqa: S102 - our own docs
    finally:
        for policy in policies():
            if policy.name not in before:
                unregister(policy.name)


def test_the_readme_tells_what_the_demo_prints(capfd, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dtrdiag", "quickstart"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    readme = (ROOT / "README.md").read_text()
    excerpt = next(b for b in blocks(ROOT / "README.md", "text") if "One byte more" in b)
    said = " ".join(done.stdout.split())
    for sentence in excerpt.split("...\n"):
        assert " ".join(sentence.split()) in said
    for file in ("works.jsonl", "fails.jsonl"):
        assert (tmp_path / "dtrdiag-demo" / file).exists()
        assert file in readme


def test_the_readme_tells_what_the_map_prints(tmp_path):
    readme = ROOT / "README.md"
    (command,) = (c for c in commands(readme) if c.startswith("dtrdiag map"))
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=True,
    )
    said = " ".join(done.stdout.split())
    excerpt = next(b for b in blocks(readme, "text") if "Feasibility inversions" in b)
    for sentence in excerpt.split("...\n"):
        assert " ".join(sentence.split()) in said


def test_make_targets_are_there():
    makefile = (ROOT / "Makefile").read_text()
    for document in DOCUMENTS:
        for target in re.findall(r"`?make ([a-z-]+)`?", document.read_text()):
            if target in {"room"}:  # prose
                continue
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), (document, target)


def test_links_between_documents_lead_somewhere():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text()):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), (document, target)
