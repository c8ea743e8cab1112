"""Live runs and the simulator's of the recording: equal where they should be, told apart if not."""

import json

import pytest

from dtrdiag.analyses import first_divergence
from dtrdiag.cli import main
from dtrdiag.instrumentation.pytorch.allocated import _highest
from dtrdiag.instrumentation.pytorch.trials import differing
from dtrdiag.log import open_log
from dtrdiag.rendering.fidelity import fidelity_words

PROGRAM = """
import torch
from torch import nn

from dtrdiag.instrumentation.pytorch import Step

calls = 0


def step(plant="none"):
    global calls
    calls = 0
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(16, 16), nn.Tanh())]
    network, x = nn.Sequential(*layers), torch.ones(64, 16)
    on_real = type(x) is torch.Tensor
    x.requires_grad_(plant == "wants")

    def run():
        global calls
        calls += 1
        if plant == "input":
            x.mul_(1.5)
        y = network(x)
        if plant == "value":
            y = y * calls
        if plant == "op" and on_real:
            y = y.sin()
        if plant == "size" and on_real:
            y = torch.cat([y, y[:1]])
        elif plant == "size":
            y = torch.cat([y, y[:2]])
        if plant in ("reads", "fails") and float(y.detach().sum()) > 0:
            y = y + 1
        if plant == "fails":
            raise ValueError("on real tensors, too")
        loss = y.sum()
        loss.backward()
        return loss

    return Step("planted", network, run, inputs=(x,))


def keeps_its_optimizer():
    network = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(network.parameters(), momentum=0.9)

    def run():
        optimizer.zero_grad()
        network(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    return run
"""


@pytest.fixture
def fidelity(tmp_path, monkeypatch, capfd):
    """Runs the verb in a folder with the program; returns exit status and document."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "planted", raising=False)
    (tmp_path / "planted.py").write_text(PROGRAM)

    def run(*arguments):
        capfd.readouterr()
        status = main(["fidelity", *arguments, "--json"])
        out, err = capfd.readouterr()
        return status, json.loads(out) if status < 2 else err

    return run


def only(document):
    (point,) = document["points"]
    return point


def test_a_live_run_does_what_the_simulator_says(fidelity):
    status, document = fidelity("planted:step", "-p", "dtr", "-p", "lru", "-r", "0.8", "-r", "1")
    assert status == 0
    assert document["recorded_on"] == "fake"
    assert document["summary"]["equal"] == document["summary"]["points"] == 4
    for point in document["points"]:
        assert point["outcome"] == "ok"
        assert point["simulated"] == point["live"]
        assert (point["first_divergence"], point["programs"]) == (None, None)
        found = point["bytes"]
        assert found["owned"] == found["accounted"] <= point["budget"]
        assert found["allocated"] >= found["accounted"]
        assert point["values"]["differing"] == []
        assert point["values"]["compared"] > 20
        overhead = point["overhead"]
        assert overhead["roofline"] == pytest.approx(point["live"]["overhead"])
        assert (overhead["kernels"] > 1) == (point["live"]["remats"] > 0)
    assert document["points"][0]["live"]["remats"] > 0


def test_runs_that_stop_are_compared_up_to_the_stop(fidelity):
    status, document = fidelity("planted:step", "--repeat", "0", "-b", "27000", "-b", "12000")
    assert status == 0
    oom, refused = document["points"]
    assert oom["outcome"] == "oom" == oom["simulated"]["outcome"]
    assert oom["why"].startswith("out of memory: ")
    assert (
        oom["common_prefix"]
        == oom["live"]["computes"] + oom["live"]["remats"] + (oom["live"]["evictions"]["total"])
    )
    assert refused["outcome"] == "refused"
    assert refused["live"] is None
    assert refused["simulated"]["outcome"] == "oom"
    limit = ("--overhead-limit", "1.01")
    status, document = fidelity("planted:step", "--repeat", "0", "-b", "32000", *limit)
    assert status == 0
    thrashed = only(document)
    assert thrashed["outcome"] == "thrashed" == thrashed["simulated"]["outcome"]
    assert thrashed["values"] is None


def test_another_op_is_named(fidelity):
    status, document = fidelity("planted:step", "--set", "plant=op", "-r", "0.8", "--repeat", "0")
    assert status == 1
    point = only(document)
    assert not point["equal"]
    assert document["warmup_wanted"] is None
    programs = point["programs"]
    assert programs["what"] == "name"
    assert programs["a"].startswith("aten.sum")
    assert programs["b"].startswith("aten.sin")
    parted = point["first_divergence"]
    assert parted is None or parted["during_op"] >= programs["op"]


def test_another_size_is_named(fidelity):
    status, document = fidelity("planted:step", "--set", "plant=size", "-r", "0.8", "--repeat", "0")
    assert status == 1
    programs = only(document)["programs"]
    assert programs["what"] in ("sizes", "references", "cost")
    said = " ".join(fidelity_words(document))
    assert f"The programs part at op {programs['op']}" in said


def test_where_the_first_step_is_another_one_it_is_said_what_to_do(fidelity):
    target = ("planted:keeps_its_optimizer", "-r", "1", "-r", "0.99", "--repeat", "0")
    status, document = fidelity(*target)
    assert (status, document["warmup"], document["warmup_wanted"]) == (1, 0, 1)
    first, second = document["points"]
    assert first["equal"]
    assert second["programs"] is not None
    # The runs in which these would be counted were of other steps.
    assert first["bytes"]["allocated"] is second["bytes"]["allocated"] is None
    (said,) = [line for line in fidelity_words(document) if "--warmup" in line]
    assert said.endswith("gradients begin to add up: --warmup 1 takes it before.")
    status, document = fidelity(*target, "--warmup", "1")
    assert (status, document["warmup"], document["warmup_wanted"]) == (0, 1, None)
    assert document["points"][0]["bytes"]["allocated"] > 0


@pytest.mark.parametrize("plant", ["input", "wants"])
def test_inputs_are_put_back_before_each_run(plant, fidelity):
    target = ("planted:step", "--set", f"plant={plant}", "-r", "1", "-r", "0.8", "--repeat", "0")
    status, document = fidelity(*target)
    assert status == 0
    assert [point["values"]["differing"] for point in document["points"]] == [[], []]


def test_another_value_is_found_though_all_decisions_are_equal(fidelity):
    status, document = fidelity("planted:step", "--set", "plant=value", "-r", "1", "--repeat", "0")
    assert status == 1
    point = only(document)
    assert point["equal"]
    assert "result 0" in point["values"]["differing"]
    assert point["values"]["max_difference"] > 0


def test_what_reads_a_value_is_recorded_on_real_tensors(fidelity):
    status, document = fidelity(
        "planted:step", "--set", "plant=reads", "-r", "0.9", "--repeat", "0"
    )
    assert status == 0
    assert document["recorded_on"] == "real"
    assert "reads a value" in document["recorded_because"]


def test_both_logs_are_kept_and_can_be_compared_again(fidelity, tmp_path):
    status, document = fidelity("planted:step", "-r", "0.8", "--repeat", "0", "--logs", "kept")
    assert status == 0
    names = only(document)["logs"]
    simulated, live = (open_log(tmp_path / "kept" / names[side]) for side in ("simulated", "live"))
    assert (simulated.header.runtime, live.header.runtime) == ("dtrdiag", "dtrdiag-live")
    assert first_divergence(simulated, live) is None
    assert (tmp_path / "kept" / "recorded.log.zst").exists()
    status, error = fidelity("planted:step", "-r", "0.8", "--repeat", "0", "--logs", "kept")
    assert status == 2
    assert "exists already" in error


def test_measured_costs_predict_too(fidelity):
    status, document = fidelity("planted:step", "-r", "0.8", "--repeat", "1", "--costs", "measured")
    assert status == 0
    overhead = only(document)["overhead"]
    assert overhead["medians"] > 1
    assert overhead["closer"] in ("roofline", "medians")
    assert sum(document["summary"]["closer"].values()) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("planted",), "names nothing"),
        (("planted:nothing",), "nothing"),
        (("planted:step", "-p", "drt"), "drt"),
        (("planted:step", "-r", "0.5", "-b", "1MB"), "not both"),
        (("planted:step", "--costs", "guessed"), "guessed"),
        (("planted:step", "--repeat", "-1"), "--repeat"),
        (("planted:step", "--set", "plant"), "KEY=VALUE"),
        (("planted:step", "--set", "plant=fails"), "raised ValueError: on real tensors, too"),
        (("planted:step", "--warmup", "-1"), "--warmup must not be negative, not -1"),
        (("planted:step", "--size", "small"), "--size"),
        (("planted:step", "--device", "tpu"), "tpu"),
        (("zoo:nothing",), "nothing"),
    ],
)
def test_bad_input_is_refused(fidelity, arguments, said):
    status, error = fidelity(*arguments)
    assert status == 2
    assert said in error
    assert error.startswith("dtrdiag: error: ")
    assert len(error.splitlines()) == 1


def test_the_highest_sum_of_allocations_goes_by_time():
    assert _highest([(3, -5), (1, 5), (2, 7), (4, 2)]) == 12
    assert _highest([]) == 0


def test_values_are_compared_bit_by_bit():
    import torch

    plain = {"a": torch.tensor([0.0, 1.0]), "b": torch.tensor(float("nan"))}
    assert differing(plain, plain) == ([], 0.0)
    other = {"a": torch.tensor([-0.0, 1.5]), "b": torch.tensor(float("nan"))}
    assert differing(plain, other) == (["a"], 0.5)
    assert differing(plain, {"a": plain["a"]}) == (["b"], float("inf"))


CLAIM = """
id = "live"
title = "t"
statement = "s"
source = "here"
scope = "a step"
kind = "observation"
refuted_if = "it is not"

[[evidence]]
check = "fidelity"
target = "planted:step"
settings = { plant = "none" }
policies = ["dtr"]
budgets = [27_000, 34_000]
expect = ["each(points, 'live.outcome') == ['oom', 'ok'] and summary.equal == 2", "peak == 44_488"]
"""


def test_a_claim_may_rest_on_live_runs(fidelity, tmp_path, capfd):
    folder = tmp_path / "claims"
    folder.mkdir()
    (folder / "live.toml").write_text(CLAIM)
    assert main(["reproduce", str(folder), "-j", "1", "--write", "--json"]) == 0
    (claim,) = json.loads(capfd.readouterr().out)["claims"]
    assert claim["status"] == "observed"
    (folder / "live.toml").write_text(CLAIM.replace("'oom', 'ok'", "'ok', 'ok'"))
    assert main(["reproduce", str(folder), "-j", "1", "--json"]) == 1
    (claim,) = json.loads(capfd.readouterr().out)["claims"]
    assert claim["status"] == "refuted"


def test_a_function_with_a_model_of_its_own_has_no_values(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "def step():\n"
        "    model = torch.nn.Linear(4, 4)\n"
        "    def take():\n"
        "        model(torch.ones(2, 4)).sum().backward()\n"
        "        model.zero_grad(set_to_none=True)\n"
        "    return take\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    assert main(["fidelity", "mine:step", "-p", "dtr", "-r", "1", "--repeat", "1"]) == 0
    assert "Values were not compared" in " ".join(capsys.readouterr().out.split())
