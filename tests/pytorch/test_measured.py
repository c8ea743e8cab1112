"""Measured costs: kept by operator and shapes, saved and read again, and what is refused."""

import json

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from dtrdiag.errors import InputError, OutputError, UsageError
from dtrdiag.instrumentation.pytorch.errors import RecordingError
from dtrdiag.instrumentation.pytorch.measured import FORMAT, Measured, key_of
from dtrdiag.instrumentation.pytorch.traffic import tensors_in

aten = torch.ops.aten


def cost(model, func, *args, **kwargs):
    return model.cost_ns(func, args, kwargs, list(tensors_in(func(*args, **kwargs))), 0)


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """What is dispatched while it is entered."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.fixture
def calls(monkeypatch):
    """What durations were measured: of a first execution, and of five others in no order."""
    durations = [5, 900, 100, 300, 200, 400]
    made = []

    def timed(execute):
        execute()
        made.append(durations[len(made) % len(durations)])
        return made[-1]

    monkeypatch.setattr("dtrdiag.instrumentation.pytorch.measured._time_here", timed)
    return made


def test_the_median_of_the_repetitions_counts_and_the_first_run_does_not(calls):
    model = Measured(repetitions=5)
    assert cost(model, aten.mm.default, torch.ones(3, 4), torch.ones(4, 5)) == 300
    assert len(calls) == 6


def test_the_same_shapes_are_measured_once(calls):
    model = Measured(repetitions=3)
    assert cost(model, aten.mul.Tensor, torch.ones(4), 2.0) == 300
    assert cost(model, aten.mul.Tensor, torch.zeros(4), 3.0) == 300
    assert len(calls) == 4
    cost(model, aten.mul.Tensor, torch.ones(5), 2.0)
    assert len(calls) == 8


def test_views_are_not_measured(calls):
    assert cost(Measured(), aten.view.default, torch.ones(4), [2, 2]) == 0
    assert calls == []


def test_real_executions_take_time():
    model = Measured(repetitions=2)
    assert cost(model, aten.mm.default, torch.ones(30, 40), torch.ones(40, 50)) > 0


def test_fake_tensors_are_measured_as_real_ones(calls):
    real, fake = Measured(repetitions=5), Measured(repetitions=5)
    weight, indices = torch.ones(10, 4), torch.zeros(3, dtype=torch.int64)
    cost(real, aten.embedding.default, weight, indices)
    with FakeTensorMode() as mode:
        weight, indices = mode.from_tensor(weight), mode.from_tensor(indices)
        cost(fake, aten.embedding.default, weight, indices)
    assert fake.describe() == real.describe()


def test_the_program_and_its_random_state_are_left_alone():
    model, x, before = Measured(repetitions=2), torch.ones(8), torch.get_rng_state()
    with Counting() as mode:
        ns = model.cost_ns(aten.bernoulli_.float, (x, 0.5), {"generator": None}, [x], 0)
    assert ns > 0
    assert mode.names == []
    assert torch.equal(x, torch.ones(8))
    assert torch.equal(torch.get_rng_state(), before)


def test_arguments_that_share_a_storage_do_so_when_measured(monkeypatch):
    seen = []

    def remember(execute):
        seen.append(execute())
        return 1

    monkeypatch.setattr("dtrdiag.instrumentation.pytorch.measured._time_here", remember)
    x = torch.ones(8)
    model = Measured(repetitions=2)
    model.cost_ns(aten.add_.Tensor, (x[:4], x[4:]), {}, [x[:4]], 0)
    # Filled anew before each: 0.5 + 0.5, in the first half of a storage of 8.
    assert seen[-1].tolist() == [1.0] * 4
    assert seen[-1].untyped_storage().nbytes() == 32


def test_a_key_names_operator_shapes_strides_and_dtypes_and_no_floats():
    x = torch.ones(3, 4)
    key = key_of(aten.add.Tensor, (x, x.t()), {"alpha": 0.25})
    assert key == "aten::add.Tensor(float32[3, 4]/[4, 1], float32[4, 3]/[1, 4], alpha=float)"
    assert key_of(aten.sum.dim_IntList, (x.half(), [1]), {"dtype": None}) == (
        "aten::sum.dim_IntList(float16[3, 4]/[4, 1], [1], dtype=None)"
    )


@pytest.fixture
def table(tmp_path):
    model = Measured(repetitions=2)
    cost(model, aten.mm.default, torch.ones(3, 4), torch.ones(4, 5))
    cost(model, aten.add.Tensor, torch.ones(3), 1.0)
    path = tmp_path / "costs.json"
    model.save(path)
    return model, path


def test_a_saved_table_gives_the_same_costs_and_description(table, tmp_path):
    model, path = table
    again = Measured.from_file(path)
    mm = aten.mm.default, torch.ones(3, 4), torch.ones(4, 5)
    assert cost(again, *mm) == cost(model, *mm)
    assert again.describe() == model.describe()
    assert again.describe()["device"]
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_what_a_table_does_not_have_is_refused(table):
    again = Measured.from_file(table[1])
    with pytest.raises(RecordingError, match=r"does not have aten::mm\(float32\[3, 5\]"):
        cost(again, aten.mm.default, torch.ones(3, 5), torch.ones(5, 5))
    assert cost(again, aten.t.default, torch.ones(3, 5)) == 0


def test_a_table_is_not_overwritten_unasked(table, tmp_path):
    model, path = table
    with pytest.raises(OutputError, match="exists"):
        model.save(path)
    model.save(path, force=True)
    with pytest.raises(OutputError, match="cannot be written"):
        model.save(tmp_path / "none" / "costs.json")


def test_an_operator_that_fails_on_other_values_is_refused():
    singular = torch.eye(3)  # 0.5 everywhere is not positive definite
    with pytest.raises(RecordingError, match="cannot be executed to be measured: aten::cholesky"):
        cost(Measured(), aten.cholesky.default, singular)


@pytest.mark.parametrize("repetitions", [0, 1.5, True, None])
def test_repetitions_that_cannot_be_made_are_refused(repetitions):
    with pytest.raises(UsageError, match="repetitions"):
        Measured(repetitions)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"format": "else"}, "format"),
        ({"version": 2}, "version is 2"),
        ({"threads": 0}, "threads is 0"),
        ({"device": None}, "device is None"),
        ({"repetitions": True}, "repetitions is True"),
        ({"costs_ns": []}, "no costs_ns"),
        ({"costs_ns": {"aten::mm": 0}}, "cost of aten::mm is 0"),
        ({"costs_ns": {"aten::mm": 1.5}}, "cost of aten::mm is 1.5"),
    ],
    ids=str,
)
def test_a_table_that_says_something_impossible_is_refused(table, change, what):
    path = table[1]
    fields = json.loads(path.read_text())
    assert fields["format"] == FORMAT
    path.write_text(json.dumps({**fields, **change}))
    with pytest.raises(InputError, match=what):
        Measured.from_file(path)


@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_table_is_refused(tmp_path, content):
    path = tmp_path / "costs.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a table of costs"):
        Measured.from_file(path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_is_timed_by_events():
    model = Measured(repetitions=3)
    x = torch.ones(512, 512, device="cuda")
    assert 1_000 < cost(model, aten.mm.default, x, x) < 10**9
    assert model.describe()["device"] == torch.cuda.get_device_name()
