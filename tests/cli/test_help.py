"""The help of every verb: its examples run, its options are grouped, its lines fit."""

import os
import sys

import pytest

from dtrdiag.cli import main
from dtrdiag.cli.app import PROGRAM, VERBS
from dtrdiag.cli.examples import EXAMPLES

SUBVERBS = ["traces list", "traces info", "traces fetch", "traces convert"]
PAGES = ["", *VERBS, *SUBVERBS]
NOT_HERE = (*EXAMPLES["traces fetch"], EXAMPLES["reproduce"][0])
"""The network, and a file that nobody has yet; tests/trace has both with a stand-in. What runs all
quick claims is shown in docs/claims.md, too, whose commands tests/docs runs.
"""
OF_THE_USER = """
import torch


def step(batch):
    network = torch.nn.Linear(4, 4)
    return lambda: network(torch.ones(batch, 4)).sum().backward()
"""
"""The user's own program, which examples record."""


def test_every_help_text_has_a_few_examples():
    assert set(EXAMPLES) == set(PAGES)
    for verb, examples in EXAMPLES.items():
        assert 2 <= len(examples) <= 4
        assert all(command.startswith(f"{PROGRAM} {verb}".strip()) for _, command in examples)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all examples: those of later verbs use what earlier ones leave."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "mine.py").write_text(OF_THE_USER)
    sys.modules.pop("mine", None)
    yield folder
    sys.modules.pop("mine", None)


LEFT_BY = {"dtrdiag-demo": "dtrdiag quickstart", "run.jsonl": EXAMPLES["run"][-1][1]}
"""Which examples leave what those of other verbs are about."""


@pytest.fixture(scope="module")
def example(folder):
    """Runs an example, after those that it needs; one that several verbs show runs once."""
    ran = set()

    def run(command, capfd):
        for file, by in LEFT_BY.items():
            if file in command and by not in (*ran, command):
                run(by, capfd)
        if command in ran:
            return
        ran.add(command)
        capfd.readouterr()
        status = main(command.partition(" > ")[0].split()[1:])
        out, err = capfd.readouterr()
        assert status == 0, command
        # Claims about traces that have to be fetched are noted.
        assert err.startswith("dtrdiag: note: ") or not err, command
        assert out

    return run


@pytest.mark.parametrize("verb", EXAMPLES, ids=lambda verb: verb or PROGRAM)
def test_the_examples_run_as_they_stand(verb, folder, example, monkeypatch, capfd):
    if verb in ("record", "fidelity"):
        pytest.importorskip("torch")
    monkeypatch.chdir(folder)
    # One process: workers take longer to start than these examples to run.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    for shown in EXAMPLES[verb]:
        if shown not in NOT_HERE:
            example(shown[1], capfd)


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("verb", PAGES, ids=lambda verb: verb or PROGRAM)
def test_help_fits_and_nothing_is_cut(answers, monkeypatch, verb, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = answers(*verb.split(), "--help").out.splitlines()
    commands = {f"  {command}" for _, command in EXAMPLES[verb]}
    assert commands <= set(lines)
    wide = [line for line in lines if len(line) > min(columns, 100) and line not in commands]
    assert all(line.startswith("  --") and "|" in line for line in wide)  # one word cannot wrap
    assert not any(line.endswith("...") and line[-4:-3].isalpha() for line in lines)


def test_options_are_in_groups(answers):
    out = answers("run", "--help").out
    own, run, output, examples = (
        out.index(f"\n{title}:")
        for title in ("Options", "Options of the run", "Output", "Examples")
    )
    assert own < out.index("--candidates") < run < out.index("--ratio") < output
    assert output < out.index("--json") < examples


def test_force_is_in_the_group_of_what_it_means(answers):
    out = answers("whatif", "--help").out
    assert out.index("--force SEQ=STORAGE") < out.index("\nOutput:") < out.index("--replace")


def test_the_usage_names_arguments_as_people_write_them(answers):
    assert answers("run", "--help").out.startswith("Usage: dtrdiag run [OPTIONS] TRACE\n")
    assert answers("diff", "--help").out.startswith("Usage: dtrdiag diff [OPTIONS] RUN_A [RUN_B]\n")
