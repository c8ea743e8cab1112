"""`record` makes a trace of a program by its name, or says in one line why not."""

import json
import subprocess
import sys

import pytest

from dtrdiag.cli import main
from dtrdiag.errors import UsageError
from dtrdiag.instrumentation.pytorch import Measured, Step, record_step
from dtrdiag.instrumentation.pytorch.logsink import recording_of
from dtrdiag.instrumentation.pytorch.returned import refuse_returned, watched
from dtrdiag.instrumentation.pytorch.taking import warm_up
from dtrdiag.instrumentation.zoo import make
from dtrdiag.trace.catalog import resolve

PROGRAM = """
import torch
from torch import nn

from dtrdiag.instrumentation.pytorch import Step

taken = []


def step(batch=2, optimizer=False):
    model, x = nn.Linear(4, 4), torch.ones(batch, 4)
    print("building")
    made = torch.optim.Adam(model.parameters()) if optimizer else None
    return Step("mine", model, lambda: model(x).sum().backward(), made)


def returns_a_function():
    x = torch.ones(3)

    def run():
        taken.append(1)
        x.exp()

    return run


def itself(power=2):
    taken.append(1)
    return torch.ones(3) ** power


def fails():
    raise ValueError("no such\\n   thing")


def fails_later():
    return lambda: [torch.ones(3), [][1]]


def loads():
    from torch._utils import ExceptionWrapper

    def run():
        try:
            fails()
        except ValueError:
            ExceptionWrapper(where="in a loader").reraise()

    return run


def leaves():
    raise SystemExit(0)


def selects():
    x = torch.ones(3)
    return lambda: x[x > 0]


def reads():
    return lambda: torch.ones(()).item()


def hides():
    def run():
        try:
            torch.ones(3).nonzero()
        except Exception as error:
            raise KeyError("lost") from error

    return run


class Odd:
    def __call__(self):
        return torch.ones(3).exp()


async def waits():
    return torch.ones(3).exp()


def yields():
    yield torch.ones(3).exp()


def yields_later():
    return Step("odd", None, yields)


def returns_a_model():
    return nn.Linear(4, 4)


def returns_two():
    return nn.Linear(4, 4), torch.ones(2, 4)


returns_an_object, returns_a_class = lambda: Odd(), lambda: Odd
number, model = 3, nn.Linear(4, 4)
"""


@pytest.fixture
def verb(tmp_path, monkeypatch, capfd):
    """Calls `record` in a folder with the program; returns status, answer and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    (tmp_path / "mine.py").write_text(PROGRAM)

    def call(*arguments):
        capfd.readouterr()
        status = main(["record", *arguments])
        out, err = capfd.readouterr()
        return status, out, err

    yield call
    sys.modules.pop("mine", None)


@pytest.fixture
def answered(verb):
    """Calls `record --json` and wants an answer."""

    def call(*arguments):
        status, out, err = verb(*arguments, "--json")
        assert status == 0, err
        return json.loads(out)

    return call


@pytest.fixture
def refused(verb, tmp_path):
    """Calls `record` and wants one line, and no file."""

    def call(*arguments):
        before = set(tmp_path.iterdir())
        status, out, err = verb(*arguments)
        assert (status, out) == (2, "")
        assert {path for path in tmp_path.iterdir() if path.name != "__pycache__"} == before
        line = [line for line in err.splitlines() if line != "building"]
        assert len(line) == 1
        return line[0].removeprefix("dtrdiag: error: ")

    return call


def test_a_model_of_the_zoo_is_recorded(answered, tmp_path):
    sizes = ("--size", "small", "--set", "batch=3", "--set", "attention=eager")
    found = answered("zoo:gpt2", *sizes, "--fake", "--optimizer", "adam")
    assert (found["schema"], found["target"]) == ("dtrdiag.record/1", "zoo:gpt2")
    assert (found["fake"], found["warmup"], found["file"]) == (True, 1, "gpt2.log.zst")
    assert found["bytes"] == (tmp_path / "gpt2.log.zst").stat().st_size
    trace = resolve(str(tmp_path / "gpt2.log.zst"))
    step = make("gpt2", "small", batch=3, attention="eager", optimizer="adam")
    assert trace.sha256 == found["trace"]["sha256"] == record_step(step).trace.sha256
    assert found["trace"]["ops"] == trace.ops
    assert found["constant_bytes"] == trace.constant_bytes
    assert found["baseline_cost"] == trace.baseline_cost_ns
    assert found["peak"] >= found["held_peak"] == found["recording"]["peak_bytes"]
    assert found["recording"] == recording_of(trace.preamble)
    assert found["recording"]["optimizer"] == "Adam"
    assert found["recording"]["sizes"]["batch"] == 3


def test_people_are_told_what_was_recorded(verb, capfd):
    status, out, err = verb("mine:step", "--name", "my step/1", "--set", "optimizer=true")
    assert (status, err) == (0, "building\n")
    said = " ".join(out.split())  # in however many lines
    assert said.startswith("Recorded my step/1, a step of ")
    assert ". The log is in my-step-1.log.zst (" in said
    assert "Adam" in out
    assert main(["traces", "info", "my-step-1.log.zst"]) == 0
    told = capfd.readouterr().out
    assert all(words in told for words in ("optimizer", "Adam", "roofline, a100-40gb", "torch "))
    assert main(["traces", "info", "my-step-1.log.zst", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["recording"]["name"] == "my step/1"


def test_a_function_gives_a_step_or_a_function_or_is_the_step(answered):
    step = answered("mine:step", "--set", "batch=5", "-o", "a.log")
    assert step["recording"]["inputs"][0]["shape"] == [5, 4]
    assert step["recording"]["model"] == "Linear"
    mine = sys.modules["mine"]
    assert answered("mine:returns_a_function", "-o", "b.log")["trace"]["ops"] == 2
    assert len(mine.taken) == 1
    itself = answered("mine:itself", "--set", "power=3", "-o", "c.log")
    assert itself["trace"]["ops"] == 2
    assert itself["recording"]["sizes"] == {"power": 3}
    assert len(mine.taken) == 3
    assert itself["warmup"] == 1
    assert answered("mine:returns_a_function", "--warmup", "2", "-o", "d.log")["warmup"] == 2
    assert len(mine.taken) == 6


def test_a_step_that_was_taken_already_counts_among_those_before():
    taken = []
    step = Step("itself", None, lambda: taken.append(1), taken=1)
    assert [warm_up(step, steps) for steps in (None, 0, 1, 3)] == [1, 1, 1, 3]
    assert len(taken) == 2


def test_a_step_may_import_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(tmp_path) not in sys.path
    assert str(tmp_path) in watched("f", sys.path.copy)()


def test_a_model_that_was_trained_is_a_result_of_a_step():
    import torch

    model = torch.nn.Linear(2, 2)
    with pytest.raises(UsageError, match="a step calls one"):
        refuse_returned("f", model)
    loss = model(torch.ones(2)).sum()
    refuse_returned("f", (model, loss))
    refuse_returned("f", (model, loss.item()))
    loss.backward()
    refuse_returned("f", model)


def test_costs_and_writes_are_chosen(answered, tmp_path):
    def recorded(*options):
        return answered("mine:step", "--set", "optimizer=true", *options, "-o", "x.log", "--force")

    plain, sink = recorded(), recorded("--writes", "sink")
    assert sink["peak"] < plain["peak"]
    assert recorded("--device", "rtx-4090")["baseline_cost"] == plain["baseline_cost"]
    slow = tmp_path / "slow.toml"
    slow.write_text(
        'name = "slow"\ntitle = "Slow"\nsource = "none"\nbandwidth = 1000\n'
        "vector = { fp64 = 1, fp32 = 1 }\nmatrix = { fp32 = 1 }\n"
    )
    slowly = recorded("--device", "slow.toml")
    assert slowly["baseline_cost"] > 1_000_000 * plain["baseline_cost"]
    measured = Measured(repetitions=1)
    record_step(make("gpt2", "small", layers=1), costs=measured)
    measured.save("costs.json")
    found = answered("zoo:gpt2", "--size", "small", "--set", "layers=1", "--costs", "costs.json")
    assert found["recording"]["costs"]["model"] == "measured"


REFUSED = {
    "mine:fails": "mine:fails raised ValueError: no such thing (FOLDER/mine.py:33)",
    "mine:fails_later": "mine:fails_later raised IndexError: list index out of range (FOLDER/mine",
    "mine:loads": "mine:loads raised ValueError in a loader: no such thing (FOLDER/mine.py:33)",
    "mine:leaves": "mine:leaves raised SystemExit: 0 (FOLDER/mine.py:53)",
    "mine:selects": "aten.index.Tensor with a mask: the size of its result depends on data (FOLDER",
    "mine:reads --fake": "aten._local_scalar_dense.default: reads a value, which fake tensors do",
    "mine:hides": "aten.nonzero.default: the sizes of its results depend on data (FOLDER/mine.py",
    "mine:step --set size=2": "mine:step raised TypeError: step() got an unexpected keyword argum",
    "mine:number": "mine:number is no function",
    "mine:model": "mine:model is a model (Linear), and a step calls one: name a function that",
    "mine:returns_a_model": "mine:returns_a_model returns a model (Linear), and a step calls one:",
    "mine:returns_two": "mine:returns_two returns a tuple with a model (Linear), and a step calls",
    "mine:returns_an_object": "mine:returns_an_object returns an object that can be called (Odd):",
    "mine:returns_a_class": "mine:returns_a_class returns a class (Odd): return a function that",
    "mine:yields": "mine:yields returns a generator, of which nothing has run: return a function",
    "mine:yields_later": "the step of mine:yields_later returns a generator, of which nothing has",
    "mine:waits": "mine:waits returns a coroutine, of which nothing has run: write a plain fun",
    "mine:stp": 'no function of mine "stp"; did you mean step?',
    "mine": '"mine" names nothing to record: zoo:MODEL, or MODULE:FUNCTION',
    "mine.py:step": "a module is named as in an import: mine:step",
    "nowhere:step": "no module nowhere in the current folder",
    "zoo:gpt": 'no model of the zoo "gpt"; did you mean gpt2 or gpt2-xl?',
    "zoo:gpt2 --set layer=1": 'no size of gpt2 "layer"; did you mean layers?',
    "zoo:gpt2 --set layers=two": 'layers of gpt2 is "two"; it is a whole number from 1',
    "zoo:gpt2 --set size": '--set takes KEY=VALUE, not "size"',
    "zoo:gpt2 --size tiny": 'no size "tiny"; there are full, small',
    "zoo:gpt2 --optimizer rms": 'no optimizer "rms"; there are sgd, adam',
    "mine:step --size small": "--size is for models of the zoo; --set passes arguments to a func",
    "mine:itself --optimizer sgd": "--optimizer sgd: mine:itself gives no Step with a model",
    "mine:step --set optimizer=true --optimizer sgd": "--optimizer sgd: mine:step brings one of i",
    "mine:step --warmup -1": "--warmup must not be negative, not -1",
    "mine:step --writes twice": 'no way of --writes "twice"; there are copy, sink',
    "mine:step --check --fake": "--check compares values, which --fake does not have",
    "mine:step --device a100": 'no device "a100"; did you mean a100-40gb or a100-80gb?',
    "mine:step --costs none.json": "no such file (none.json)",
    "mine:step -o mine.py": "exists already; --force replaces it (mine.py)",
    "mine:step -o none/x.log": "the folder does not exist (none/x.log)",
}


@pytest.mark.parametrize("asked", REFUSED)
def test_what_cannot_be_recorded_is_told_in_a_line(refused, tmp_path, asked):
    said = refused(*asked.split())
    assert said.startswith(REFUSED[asked].replace("FOLDER", str(tmp_path)))


def test_where_it_went_wrong_is_shown_when_asked_for(verb):
    status, _, err = verb("mine:fails", "--debug")
    assert status == 2
    assert "Traceback" in err
    assert 'raise ValueError("no such' in err


def test_without_torch_the_verb_says_what_to_install():
    """And the command line goes without it otherwise."""
    program = """
import sys
sys.modules["torch"] = None
from dtrdiag.cli import main
from dtrdiag.cli.vocabulary import vocabulary
assert "record" in vocabulary()["verbs"]
assert main(["traces", "info", "chain-64", "--json"]) == 0
sys.exit(main(["record", "zoo:gpt2"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "dtrdiag: error: recording needs PyTorch, which is not installed: "
        "pip install 'dtrdiag[torch]'\n"
    )
