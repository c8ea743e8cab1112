import hashlib

import pytest

from dtrdiag.errors import OutputError
from dtrdiag.log import open_log, verify
from dtrdiag.simulator import RunConfig, native_available, simulate
from dtrdiag.trace import TraceBuilder, write_dtr_log
from dtrdiag.trace.catalog import resolve

KEYS = {
    "schema", "trace", "policy", "dealloc", "engine", "budget", "ratio", "peak", "baseline_cost",
    "outcome", "overhead", "remat_cost", "max_memory", "computes", "remats", "evictions",
    "distinct_evicted", "interval", "simulate_seconds", "decisions_sha256",
    "semantics", "interventions",
}  # fmt: skip

POLICIES = '''
from dtrdiag.simulator import Pool, Quotient, policy

@policy("squared-staleness")
def squared(pool: Pool) -> Quotient:
    """compute / (size x staleness ** 2)"""
    return Quotient(pool.compute_ns, (pool.size_bytes, pool.staleness_ns, pool.staleness_ns))
'''


def test_json_has_the_keys_that_scripts_rely_on(answers):
    run = answers("run", "recurrent-16", "-p", "dtr", "-r", "0.55", "--json").json
    assert set(run) == KEYS
    assert run["schema"] == "dtrdiag.run/1"
    assert set(run["trace"]) == {"name", "sha256", "ops", "tensors"}
    assert run["trace"]["sha256"] == resolve("recurrent-16").sha256
    assert {"total", "pressure", "release"} <= set(run["evictions"])
    assert {"total", "pressure", "release"} <= set(run["distinct_evicted"])
    assert (run["budget"], run["ratio"], run["peak"]) == (38_956_706, 0.55, 70_830_376)
    engine = "native" if native_available() else "python"
    assert (run["outcome"], run["engine"], run["dealloc"]) == ("oom", engine, "eager")
    assert run["interval"] == [38_883_928, 39_373_096]
    assert run["simulate_seconds"] > 0


def test_json_says_what_the_simulator_says(answers):
    run = answers("run", "tree-4", "-p", "random", "-b", "150MB", "--seed", 7, "--json").json
    end = simulate(resolve("tree-4"), RunConfig("random", 150_000_000, seed=7)).end
    assert run["decisions_sha256"] == end.decisions_sha256
    assert run["remats"] == end.remats
    assert run["evictions"]["pressure"] == end.evictions_pressure > 0


def test_people_get_a_sentence_and_a_table(answers):
    out = answers("run", "recurrent-16", "-r", "0.55").out
    first, _, table = out.partition("\n")
    assert first == (
        "recurrent-16 under dtr, at a budget of 38,956,706 B (37.2 MiB), 0.55 of the peak: it "
        "runs out of memory, after 137 evictions to make room and 129 rematerialisations."
    )
    assert "from 38,883,928 B to below 39,373,096 B" in table
    assert "70,830,376 B (67.5 MiB)" in table


def test_without_a_budget_a_run_is_unlimited(answers):
    run = answers("run", "chain-64", "--json").json
    assert (run["budget"], run["ratio"], run["outcome"]) == (None, None, "ok")
    assert (run["remats"], run["interval"][1]) == (0, None)
    assert "without a budget: it finishes" in answers("run", "chain-64").out


def test_rules_reach_the_simulator(answers):
    common = ["run", "chain-64", "-r", "0.08", "--json"]
    assert answers(*common).json["outcome"] == "thrashed"
    assert answers(*common, "--overhead-limit", "none").json["outcome"] == "ok"
    assert answers(*common, "--dealloc", "ignore").json["dealloc"] == "ignore"
    assert answers(*common, "--engine", "python").json["engine"] == "python"


def test_the_peak_is_that_of_a_run_that_frees_dead_storages(answers):
    for dealloc in ("eager", "ignore", "banish"):
        run = answers("run", "residual-12", "--dealloc", dealloc, "-b", "1GiB", "--json").json
        assert run["peak"] == answers("traces", "info", "residual-12", "--json").json["peak"]


def _without_a_peak(path):
    """A trace that uses a tensor after its last release."""
    builder = TraceBuilder("late")
    builder.constant("x", 8)
    builder.call(["a"], "f", ["x"], 5, [16], [-1])
    builder.release("a")
    builder.call(["b"], "g", ["a"], 5, [16], [-1])
    path.write_bytes(write_dtr_log(builder.build("0" * 64)))
    return path


def test_a_trace_without_a_peak_runs_at_budgets_alone(answers, refuses, here):
    path = _without_a_peak(here / "late.log")
    run = answers("run", path, "-b", "40", "--json").json
    assert (run["peak"], run["outcome"], run["remats"]) == (None, "ok", 1)
    assert "a ratio needs the peak" in refuses("run", path, "-r", "0.5")
    assert "late.log" in refuses("run", path, "-r", "0.5")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.zst"])
def test_the_log_is_complete_and_is_that_run(answers, here, suffix):
    path = here / f"run{suffix}"
    run = answers("run", "chain-64", "-r", "0.3", "-o", path, "--candidates", 2, "--json").json
    assert run["log"] == str(path)
    assert verify(open_log(path)).ok
    log = open_log(path)
    assert (log.header.ratio, log.header.candidates) == (0.3, 2)
    assert list(log)[-1].decisions_sha256 == run["decisions_sha256"]


def test_the_same_run_writes_the_same_bytes(answers, here):
    for name in ("a.jsonl", "b.jsonl"):
        answers("run", "chain-64", "-r", "0.3", "-o", name)
    assert (here / "a.jsonl").read_bytes() == (here / "b.jsonl").read_bytes()


def test_a_file_is_replaced_with_force_alone(answers, refuses, here):
    (here / "x.jsonl").write_text("mine")
    line = refuses("run", "chain-64", "-o", "x.jsonl")
    assert line == "exists already; --force replaces it (x.jsonl)"
    answers("run", "chain-64", "-o", "x.jsonl", "--force")
    assert verify(open_log(here / "x.jsonl")).ok


def test_a_file_that_exists_is_refused_before_the_trace_is_read(refuses, here):
    (here / "x.jsonl").write_text("mine")
    assert "exists already" in refuses("run", "no-such-trace", "-o", "x.jsonl")


def test_a_trace_may_be_a_file_or_a_member_of_an_archive(answers, here, chain_lines):
    import gzip
    import zipfile

    content = b"\n".join(chain_lines) + b"\n"
    (here / "a.log").write_bytes(content)
    (here / "b.log.gz").write_bytes(gzip.compress(content))
    with zipfile.ZipFile(here / "c.zip", "w") as bundle:
        bundle.writestr("logs/one.log", content)
        bundle.writestr("logs/two.log", b"")
    expected = answers("run", "chain-64", "-r", "0.3", "--json").json["decisions_sha256"]
    for trace in ("a.log", "b.log.gz", "c.zip::logs/one.log", "c.zip::one"):
        run = answers("run", trace, "-r", "0.3", "--json").json
        assert run["decisions_sha256"] == expected
        assert run["trace"]["sha256"] == hashlib.sha256(content).hexdigest()


def test_a_policy_of_the_user(answers, here):
    (here / "mine.py").write_text(POLICIES)
    run = answers("run", "chain-64", "--policy-file", "mine.py", "-r", "0.2", "--json").json
    assert run["policy"] == "squared-staleness"
    again = answers("run", "chain-64", "--policy-file", "mine.py", "-p", "dtr", "--json").json
    assert again["policy"] == "dtr"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("x = (", "SyntaxError: '(' was never closed (mine.py:1)"),
        ("\nraise ValueError('a\\nb')", "the policy file failed: ValueError: a b (mine.py:2)"),
        ("import sys\nsys.exit(0)", "the policy file failed: SystemExit: 0 (mine.py:2)"),
        ("x = 1", "the file registers no policy (use the decorator @policy) (mine.py)"),
        (POLICIES.replace("squared-staleness", "dtr"), "a policy named 'dtr' is registered"),
        (
            POLICIES + "\n@policy('second')\ndef second(pool):\n    return 1 / 0\n",
            "-p is needed to choose one of squared-staleness, second (mine.py)",
        ),
    ],
)
def test_policy_files_that_are_refused(refuses, here, source, why):
    (here / "mine.py").write_text(source)
    line = refuses("run", "chain-64", "--policy-file", "mine.py", "-o", "x.jsonl", "-r", "0.2")
    assert why in line


def test_a_policy_that_fails_is_one_line_that_names_its_line(dtrdiag, here):
    source = POLICIES.replace("    return Quotient", "    1 / 0\n    return Quotient")
    (here / "mine.py").write_text(source)
    answer = dtrdiag("run", "chain-64", "--policy-file", "mine.py", "-r", "0.2")
    assert answer.status == 2
    assert answer.one_line() == (
        "policy 'squared-staleness' failed: ZeroDivisionError: division by zero (mine.py:7)"
    )


def test_a_policy_file_that_is_not_python_by_name(refuses, here):
    (here / "mine.txt").write_text(POLICIES)
    assert "a name ending in .py" in refuses("run", "chain-64", "--policy-file", "mine.txt")


def test_a_policy_file_that_is_missing(refuses):
    assert refuses("run", "chain-64", "--policy-file", "gone.py") == "no such file (gone.py)"


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_run_that_cannot_begin_leaves_the_files_as_they_were(refuses, here, force):
    if force:
        (here / "x.jsonl").write_text("mine")
    refuses("run", "chain-64", "-r", "1e300", "-o", "x.jsonl", *force)
    assert [path.name for path in here.iterdir()] == ["x.jsonl"] * len(force)


EVIL = """
class Own(BaseException):
    pass

class Mute(Exception):
    def __str__(self):
        raise Own

class Long(Exception):
    def __str__(self):
        return "x" * 9999
"""
RAISED = {
    "raise Own('no')": "Own: no",
    "raise GeneratorExit": "GeneratorExit:",
    "raise SystemExit(0)": "SystemExit: 0",
    "raise SystemExit('a\\x1b[31m')": r"SystemExit: a\x1b[31m",
    "raise ValueError('a\\nb\\x1b[31m')": r"ValueError: a b\x1b[31m",
    "raise Mute": "Mute: (its message cannot be shown)",
    "raise Long": "Long: xxx",
}


@pytest.mark.parametrize(("statement", "why"), RAISED.items(), ids=RAISED)
def test_whatever_a_policy_file_raises_is_one_line(refuses, here, statement, why):
    (here / "import.py").write_text(f"{EVIL}\n{statement}\n")
    score = f"{POLICIES.replace('    return', f'    {statement}; return')}"
    (here / "score.py").write_text(EVIL + score)
    late = score.replace(f"{statement}; return Quotient(pool.compute_ns", "return Quotient(late()")
    (here / "late.py").write_text(f"{EVIL}{late}\n\ndef late():\n    yield 1\n    {statement}\n")
    for file in ("import.py", "score.py", "late.py"):
        line = refuses("run", "chain-64", "--policy-file", file, "-r", "0.2")
        assert why in line
        assert f"({file}:" in line
        assert len(line) <= 600
        assert line.isprintable()


def test_an_interrupt_in_a_policy_is_an_interrupt(dtrdiag, here):
    (here / "mine.py").write_text(POLICIES.replace("return Q", "raise KeyboardInterrupt; return Q"))
    answer = dtrdiag("run", "chain-64", "--policy-file", "mine.py", "-r", "0.2")
    assert (answer.status, answer.err) == (130, "dtrdiag: interrupted\n")


class _FullDisk:
    """A writer that finds no room."""

    def __init__(self, path, force=False):
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __call__(self, event):
        what = "cannot be written: No space left on device"
        raise OutputError(what, path=self.path)


def test_a_log_on_a_full_disk_is_told_by_its_writer(dtrdiag, monkeypatch):
    monkeypatch.setattr("dtrdiag.instrumentation.log_writer", _FullDisk)
    answer = dtrdiag("run", "recurrent-16", "-r", "0.55", "-o", "full.jsonl")
    assert answer.one_line() == "cannot be written: No space left on device (full.jsonl)"
    assert answer.status == 2
