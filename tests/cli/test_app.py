import os
import signal
import subprocess
import sys
import time

import pytest

from dtrdiag import __version__
from dtrdiag.cli import app
from dtrdiag.cli.app import VERBS
from dtrdiag.errors import UsageError

PROGRAM = [sys.executable, "-m", "dtrdiag"]


def test_version(answers):
    assert answers("--version").out == f"dtrdiag {__version__}\n"


def test_the_module_and_the_command_are_the_same_program(here):
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"dtrdiag {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_lists_the_verbs_in_order(answers, arguments):
    listed = answers(*arguments).out.partition("Commands:")[2].partition("Examples:")[0]
    lines = [line for line in listed.splitlines() if line.strip()]
    assert [line.split()[0] for line in lines] == list(VERBS)


def test_the_list_of_verbs_is_not_cut_in_80_columns(answers, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    for arguments in ([], ["traces"]):
        listed = answers(*arguments, "--help").out.partition("Commands:")[2]
        assert listed.strip()
        assert "..." not in listed


@pytest.mark.parametrize("verb", [*([verb] for verb in VERBS), ["traces", "info"]])
def test_every_verb_has_help_with_json(answers, verb):
    out = answers(*verb, "--help").out
    assert out.startswith(f"Usage: dtrdiag {' '.join(verb)}")
    assert "--json" in out or verb in (["traces"], ["completion"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["swep"], ['no verb "swep"; did you mean sweep? (see dtrdiag --help)']),
        (["zzz"], ['no verb "zzz"; there are quickstart, traces, ', "completion (see "]),
        (["traces", "inof"], ['no verb "inof"; did you mean info? (see dtrdiag traces --help)']),
        (["run"], ["missing argument 'TRACE'", "(see dtrdiag run --help)"]),
        (["run", "chain-64", "more"], ['one argument too many: "more" (see dtrdiag run --help)']),
        (
            ["run", "chain-64", "--polcy", "dtr"],
            ['no option "--polcy"; did you mean --policy? (see '],
        ),
        (
            ["run", "chain-64", "--seed", "x"],
            ['--seed must be a whole number, not "x" (see dtrdiag run'],
        ),
        (["run", "chain-64", "-r"], ["option -r needs a value (see dtrdiag run --help)"]),
        (["replay", "x.jsonl", "--at", "1.5"], ['--at must be a whole number, not "1.5"']),
        (["whatif", "chain-64", "--epsilon=q"], ['--epsilon must be a number, not "q"']),
        (["--nope"], ['no option "--nope" (see dtrdiag --help)']),
        (["--json", "run", "chain-64"], ["option --json before the verb: it goes after it"]),
    ],
)
def test_what_cannot_be_parsed_is_one_line(refuses, arguments, words):
    line = refuses(*arguments)
    assert all(word in line for word in words)


@pytest.mark.parametrize("arguments", [["--debug", "run", "nope"], ["run", "nope", "--debug"]])
def test_debug_shows_a_traceback_on_either_side_of_the_verb(dtrdiag, arguments):
    answer = dtrdiag(*arguments)
    assert answer.status == 2
    assert "Traceback (most recent call last)" in answer.err
    assert (
        answer.err.rstrip().splitlines()[-1].startswith('dtrdiag: error: no trace or file "nope"')
    )


def test_after_two_dashes_debug_is_an_argument(refuses):
    assert '"--debug"' in refuses("run", "--", "--debug")


def _raising(monkeypatch, error):
    def stop(arguments):
        raise error

    monkeypatch.setattr(app, "_invoke", stop)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("no\n  good", path="a.log", line=3), 2, "error: no good (a.log:3)"),
        (PermissionError(13, "Permission denied", "x"), 2, "error: Permission denied (x)"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("by\nzero"), 70, "error: internal: ZeroDivisionError: by zero (--debug"),
        (RecursionError("deep"), 70, "error: internal: RecursionError: deep (--debug"),
    ],
)
def test_whatever_is_raised_becomes_one_line(dtrdiag, monkeypatch, error, status, line):
    _raising(monkeypatch, error)
    answer = dtrdiag("doctor")
    assert (answer.status, answer.out) == (status, "")
    assert answer.err.startswith(f"dtrdiag: {line}")
    assert answer.err.count("\n") == 1


def test_an_internal_error_has_a_traceback_with_debug(dtrdiag, monkeypatch):
    _raising(monkeypatch, ZeroDivisionError("by zero"))
    assert "Traceback" in dtrdiag("doctor", "--debug").err


@pytest.mark.parametrize(
    "arguments", [["run", "chain-64", "--json"], ["replay", "LOG", "--from", "0"]]
)
def test_a_reader_that_goes_away_is_no_error(here, small, arguments):
    arguments = [str(small) if argument == "LOG" else argument for argument in arguments]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PROGRAM, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_told(here):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "run", "chain-64"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "dtrdiag: error: No space left on device (standard output)\n"


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_an_interrupt_ends_a_sweep_and_its_workers_in_one_line(here):
    # Enough runs for a minute; the progress file says when the first ones are saved.
    sweep = ["sweep", "recurrent-16", "--ratios", "0.3:0.9:0.0005", "-j", "2", "-o", "kept"]
    sweep += ["--engine", "python"]
    process = subprocess.Popen(
        [*PROGRAM, *sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    for _ in range(600):
        if list(here.glob("kept/runs/*/*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"dtrdiag: interrupted\n")
    assert list(here.glob("kept/runs/*/*.parquet"))


def test_markup_in_names_is_not_obeyed(answers, here, chain_lines):
    (here / "[bold]x.log").write_bytes(b"\n".join(chain_lines) + b"\n")
    assert "[bold]x under dtr" in answers("run", "[bold]x.log").out


def test_control_characters_in_names_are_not_obeyed(answers, here):
    lines = [
        '{"INSTRUCTION":"CONSTANT","NAME":"x"}',
        '{"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":"64"}',
        '{"INSTRUCTION":"CALL","NAME":"\\u001b[31mred","ARGS":["x"],"RESULT":["y"],"TIME":"5"}',
        '{"INSTRUCTION":"MEMORY","NAME":"y","MEMORY":"64"}',
        '{"INSTRUCTION":"ALIAS","NAME":"y","ALIAS":"-1"}',
    ]
    (here / "evil.log").write_text("\n".join(lines) + "\n")
    for arguments in (["run"], ["oom", "-b", "100"], ["graph"]):
        assert "\x1b" not in answers(arguments[0], "evil.log", *arguments[1:]).out


def test_colour_is_for_terminals_that_want_it(here):
    environment = {**os.environ, "FORCE_COLOR": "1"}
    run = [*PROGRAM, "run", "chain-64"]
    colour = subprocess.run(run, env=environment, capture_output=True, check=True).stdout
    environment["NO_COLOR"] = "1"
    plain = subprocess.run(run, env=environment, capture_output=True, check=True).stdout
    assert b"\x1b[32m" in colour
    assert b"\x1b[32m" not in plain


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_nothing_is_left_out_in_a_narrow_terminal(answers, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = answers("sweep", "recurrent-16", "--ratios", "0.6").out
    assert "42,498,225" in out
    assert "2.3196x" in out
    assert "…" not in out


def test_a_terminal_without_the_characters_gets_others(here):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    oom = [*PROGRAM, "oom", "recurrent-16", "-r", "0.55"]
    done = subprocess.run(oom, env=environment, capture_output=True, check=True)
    assert done.stderr == b""
    assert b"Out of memory at op 44" in done.stdout.decode("ascii").encode()


ALL_CLOSED = "<&- >&- 2>&-"


@pytest.mark.skipif(os.name == "nt", reason="no such redirections")
@pytest.mark.parametrize(
    ("arguments", "status", "told", "closed"),
    [
        (["run", "chain-64", "-r", "0.5", "-o", "x.jsonl"], 0, "chain-64 under dtr", ">&-"),
        (["run", "chain-64", "-r", "0.5", "-o", "x.jsonl"], 0, "chain-64 under dtr", "2>&-"),
        (["run", "chain-64", "-r", "0.5", "-o", "x.jsonl"], 0, "chain-64 under dtr", ALL_CLOSED),
        (["--help"], 0, "Usage: dtrdiag", ">&-"),
        (["--version"], 0, __version__, ALL_CLOSED),
        (["run", "nope"], 2, "no trace or file", ">&-"),
        (["run", "nope"], 2, "no trace or file", "2>&-"),
        (["run", "nope", "--debug"], 2, "Traceback", "2>&-"),
        (["run", "nope", "--debug"], 2, "Traceback", ALL_CLOSED),
    ],
)
def test_a_stream_that_is_closed_gets_nothing(here, closed, arguments, status, told):
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAM, *arguments]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == status
    is_error = status != 0
    assert (told in done.stdout) == (not is_error and closed == "2>&-")
    assert (told in done.stderr) == (is_error and closed == ">&-")
    assert done.stdout == "" or closed == "2>&-"
    assert done.stderr == "" or (is_error and closed == ">&-")
    for log in here.glob("*.jsonl"):
        assert told.encode() not in log.read_bytes()


class _Interrupting:
    """An import system in which the user presses Ctrl-C while a module is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name == "dtrdiag.cli.app":
            raise KeyboardInterrupt


def test_an_interrupt_while_modules_are_loaded_is_one_line(dtrdiag, monkeypatch):
    monkeypatch.delitem(sys.modules, "dtrdiag.cli.app")
    monkeypatch.setattr(sys, "meta_path", [_Interrupting(), *sys.meta_path])
    answer = dtrdiag("doctor")
    assert (answer.status, answer.out, answer.err) == (130, "", "dtrdiag: interrupted\n")


@pytest.mark.skipif(os.name == "nt", reason="signals differ")
def test_workers_end_with_a_sweep_that_is_killed(here):
    sweep = ["sweep", "recurrent-16", "--ratios", "0.3:0.9:0.0005", "-j", "2", "-o", "kept"]
    sweep += ["--engine", "python"]
    process = subprocess.Popen([*PROGRAM, *sweep], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(600):
        if list(here.glob("kept/runs/*/*.parquet")) or process.poll() is not None:
            break
        time.sleep(0.05)
    process.kill()
    # The pipes are the workers' too: they end when the last of them does.
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGKILL, b"")
    assert b"Traceback" not in err


def test_a_line_is_printable_and_not_endless(dtrdiag, monkeypatch):
    _raising(monkeypatch, UsageError("a\x1b[31m\u202e" + "b" * 9999, path="p" * 9999, line=7))
    line = dtrdiag("doctor").one_line()
    assert line.startswith(r"a\x1b[31m\u202ebbb")
    assert line.endswith("p:7)")
    assert line.isprintable()
    assert len(line) <= 600


def test_a_traceback_is_printable(dtrdiag, monkeypatch):
    _raising(monkeypatch, ValueError("\x1b[31m"))
    err = dtrdiag("doctor", "--debug").err
    assert r"\x1b[31m" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 100])
def test_no_number_and_no_name_is_cut_in_a_narrow_terminal(
    answers, works, fails, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", str(columns))
    out = answers("oom", fails, "--expand").out + answers("diff", works, fails).out
    assert "…" not in out
    words = "".join(out.replace("│", " ").split())
    assert "sigmoid_backward" in words or "sigmoid_" in words
    sweep = answers("sweep", "recurrent-16", "--budgets", "1006117915", "-j", 1).out
    assert "1,006,117,915" in sweep


@pytest.mark.parametrize(
    ("arguments", "verbs"),
    [
        (["run", "x"], {"run"}),
        (["--debug", "run", "x"], {"run"}),
        (["--version"], set()),
        (["--help"], set(VERBS)),
        ([], set(VERBS)),
        (["rum"], set(VERBS)),
        (["--", "run"], set(VERBS)),
        (["-", "run"], set(VERBS)),
    ],
)
def test_only_the_verb_that_is_asked_for_is_loaded(arguments, verbs):
    assert set(app._asked_for(arguments)) == verbs
