"""Shells ask the program what may stand at the cursor, as their scripts do."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from dtrdiag.cli import completing, main
from dtrdiag.cli.app import VERBS
from dtrdiag.cli.completing import SHELLS
from dtrdiag.simulator.policies import policies

PROGRAM = [sys.executable, "-m", "dtrdiag"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Where the vocabulary is kept: it is gathered once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def asks(here, cache, capfd, monkeypatch):
    """Asks as a shell does; gives kinds and values."""
    monkeypatch.setenv("DTRDIAG_CACHE", str(cache))

    def ask(*words, shell="zsh"):
        monkeypatch.setenv("_DTRDIAG_COMPLETE", f"complete_{shell}")
        monkeypatch.setenv("COMP_WORDS", "\n".join(("dtrdiag", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        capfd.readouterr()
        status = main([])
        out, err = capfd.readouterr()
        assert (status, err) == (0, "")
        lines = [line.split("\t") for line in out.splitlines() if line]
        assert all(len(line) == 3 for line in lines)
        return [value or f"<{kind}>" for kind, value, _ in lines]

    return ask


def test_verbs_in_their_order(asks):
    assert asks("") == list(VERBS)
    assert {"replay", "reproduce"} <= set(asks("re"))
    assert asks("traces", "") == ["list", "info", "fetch", "convert"]
    assert asks("--debug", "doc") == ["doctor"]
    assert asks("swep", "") == []


@pytest.mark.parametrize("verb", ["run", "sweep", "map"])
def test_a_trace_is_a_name_or_a_file(asks, verb):
    assert asks(verb, "rec") == ["recurrent-16", "<file>"]


@pytest.mark.parametrize("verb", ["oom", "diff", "chains", "report"])
def test_a_run_is_a_log_or_a_trace(asks, here, verb):
    for name in (
        "rec.jsonl",
        "rec.log.gz",
        "rec.txt",
        "red.jsonl",
        "rec.html",
        "rec.jsonl.partial",
    ):
        (here / name).write_text("")
    assert asks(verb, "rec") == ["recurrent-16", "rec.jsonl", "rec.log.gz", "<dir>"]


@pytest.mark.parametrize("verb", ["replay", "verify"])
def test_a_log_is_a_file_that_is_called_like_one(asks, here, verb):
    (here / "logs").mkdir()
    for name in ("logs/a.parquet", "logs/b.jsonl.zst", "logs/c.py", ".hidden.jsonl"):
        (here / name).write_text("")
    assert asks(verb, "") == ["<dir>"]
    assert asks(verb, "logs/") == ["logs/a.parquet", "logs/b.jsonl.zst", "<dir>"]
    assert asks(verb, "nowhere/") == ["<dir>"]


def test_all_traces_of_a_sweep(asks):
    assert asks("sweep", "chain-64", "tree", "lstm", "rec") == ["recurrent-16", "<file>"]


def test_members_of_an_archive(asks, here):
    with zipfile.ZipFile(here / "logs.zip", "w") as bundle:
        bundle.writestr("logs/lstm-1.log", b"")
        bundle.writestr("logs/unet-2.log", b"")
    assert asks("run", "logs.zip::l") == ["logs.zip::lstm-1.log"]
    assert asks("run", "gone.zip::") == []
    # bash takes the colons for words of their own, and wants what follows them.
    assert asks("run", "logs.zip", "::", "un", shell="bash") == ["unet-2.log"]
    assert asks("run", "logs.zip", "::", shell="bash") == ["lstm-1.log", "unet-2.log"]


def test_options_that_were_not_given_yet(asks):
    assert asks("run", "chain-64", "--o") == ["--output", "--overhead-limit"]
    assert "--ratio" not in asks("run", "-r", "0.5", "chain-64", "--")
    assert "--repair" in asks("run", "--repair", "stale-region", "chain-64", "--")
    assert "--help" in asks("run", "chain-64", "")
    assert asks("run", "--", "--o") == ["<file>"]
    assert asks("run", "chain-64", "-r") == ["-r"]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["run", "-p", "dtr-l"], ["dtr-local"]),
        (["run", "x", "--policy=dtr-l"], ["--policy=dtr-local"]),
        (["ablate", "-p", "nam"], ["named"]),
        (["run", "x", "--engine", ""], ["auto", "native", "python"]),
        (["run", "x", "--dealloc", "i"], ["ignore"]),
        (["run", "x", "--overhead-limit", ""], ["none"]),
        (["run", "x", "--semantics", "r"], ["repaired"]),
        (["run", "x", "--repair", "st"], ["stale-region"]),
        (["whatif", "x", "--tie-break", "f"], ["first"]),
        (["verify", "x.jsonl", "--trace", "tree-"], ["tree-4", "<file>"]),
        (["reproduce", "--only", "bundled"], ["bundled-inversion"]),
        (["run", "x", "-o", ""], ["<dir>"]),
        (["run", "x", "--policy-file", ""], ["<file>"]),
        (["sweep", "x", "-o", ""], ["<dir>"]),
        (["run", "x", "-r", ""], []),
        (["completion", ""], list(SHELLS)),
    ],
)
def test_values(asks, words, values):
    assert asks(*words) == values


def test_every_policy_is_offered(asks):
    assert set(asks("run", "-p", "")) >= {policy.name for policy in policies()}


def test_bash_parts_a_word_at_an_equals_sign(asks):
    assert asks("run", "x", "--dealloc", "=", "ba", shell="bash") == ["banish"]
    assert asks("run", "x", "--dealloc", "=", shell="bash") == ["eager", "ignore", "banish"]


def test_an_empty_word_that_got_lost_is_one(asks, monkeypatch):
    monkeypatch.setattr(completing, "_key", lambda: "test")
    assert asks("sweep", "-o", "")[0] == "<dir>"
    monkeypatch.setenv("COMP_WORDS", "dtrdiag\nsweep\n-o")
    monkeypatch.setenv("COMP_CWORD", "3")
    assert main([]) == 0


def test_the_second_time_no_verb_is_loaded(asks, cache):
    asks("run", "")
    script = (
        "import sys; from dtrdiag.cli import main; main(); "
        "heavy = {'numpy', 'typer', 'rich', 'dtrdiag.cli.run'} & set(sys.modules); "
        "sys.exit(f'{heavy}' if heavy else 0)"
    )
    environment = {
        **os.environ,
        "DTRDIAG_CACHE": str(cache),
        "_DTRDIAG_COMPLETE": "complete_fish",
        "COMP_WORDS": "dtrdiag\nrun\nrec",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("plain\trecurrent-16\tLSTM of 16 time steps")


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"key": "x"}', b'{"verbs": 7}'])
def test_a_damaged_cache_is_made_anew(asks, cache, content):
    asks("")
    whole = json.loads((cache / completing.CACHE_FILE).read_bytes())
    (cache / completing.CACHE_FILE).write_bytes(content)
    assert asks("run", "x", "--dealloc", "i") == ["ignore"]
    assert json.loads((cache / completing.CACHE_FILE).read_bytes()) == whole


def test_a_cache_that_cannot_be_written_is_done_without(asks, here, monkeypatch):
    (here / "file").write_text("")
    monkeypatch.setenv("DTRDIAG_CACHE", str(here / "file"))
    assert asks("doc") == ["doctor"]


def test_whatever_goes_wrong_is_silent(here, capfd, monkeypatch):
    monkeypatch.setenv("_DTRDIAG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_CWORD", "x")
    assert main([]) == 1
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("value", ["", "1", "complete_tcsh", "nonsense_bash"])
def test_a_variable_that_asks_nothing_changes_nothing(answers, monkeypatch, value):
    monkeypatch.setenv("_DTRDIAG_COMPLETE", value)
    assert answers("--version").out.startswith("dtrdiag ")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_a_shell(answers, capfd, monkeypatch, shell):
    script = answers("completion", shell).out
    assert f"complete_{shell}" in script
    monkeypatch.setenv("_DTRDIAG_COMPLETE", f"{shell}_source")
    assert main([]) == 0
    assert capfd.readouterr().out == script
    if shutil.which(shell):
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_another_shell_is_refused(refuses):
    assert refuses("completion", "bsh") == 'no shell "bsh"; did you mean bash?'


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_completes(here, cache, tmp_path):
    (here / "fails.jsonl").write_text("")
    (here / "bin").mkdir()
    program = here / "bin" / "dtrdiag"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dtrdiag "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH={here / "bin"}:$PATH
        eval "$(dtrdiag completion bash)"
        COMP_WORDS=(dtrdiag oom f) COMP_CWORD=2
        _dtrdiag_completion dtrdiag f oom
        printf '%s\\n' "${{COMPREPLY[@]}}"
        COMP_WORDS=(dtrdiag run x --dealloc = e) COMP_CWORD=5
        _dtrdiag_completion dtrdiag e =
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    environment = {**os.environ, "DTRDIAG_CACHE": str(cache)}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True
    )
    assert (done.stdout.splitlines(), done.stderr) == (["fails.jsonl", "eager"], "")
