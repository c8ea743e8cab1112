"""Devices: their figures, reading your own, and what is refused."""

import json
from pathlib import Path

import pytest

from dtrdiag.errors import InputError, UsageError
from dtrdiag.instrumentation.pytorch.devices import DEVICES, Device, device_named

GIGA = 10**9


@pytest.mark.parametrize("name", DEVICES)
def test_a_known_device_has_a_source_and_whole_numbers(name):
    device = DEVICES[name]
    assert device.name == name
    assert device.title
    assert device.source
    assert Device.from_fields(device.describe()) == device
    # Half precision is never slower than single, nor a product of matrices than a vector.
    assert device.matrix_peak("fp16") >= device.matrix_peak("fp32") >= device.vector_peak("fp32")
    # What pointwise operators do to 8 bytes an element stays below the ridge.
    assert device.vector_peak("fp32") * 8 > 10 * device.bandwidth


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_device_is_read_from_a_file(tmp_path, suffix):
    fields = {"name": "mine", "bandwidth": 5 * GIGA, "vector": {"fp64": 1, "fp32": 2}}
    path = tmp_path / f"mine.{suffix}"
    toml = 'name = "mine"\nbandwidth = 5_000_000_000\nvector = { fp64 = 1, fp32 = 2 }\n'
    path.write_text(toml if suffix == "toml" else json.dumps(fields))
    device = Device.from_file(path)
    assert device == Device(**fields)
    assert device.describe() == {**fields, "matrix": {}, "launch_ns": 1_000}


GOOD = {"name": "mine", "bandwidth": 5, "vector": {"fp64": 1, "fp32": 2}}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"bandwidth": 1.5e12}, "bandwidth is a whole number"),
        ({"bandwidth": 0}, "bandwidth"),
        ({"bandwidth": True}, "bandwidth"),
        ({"launch_ns": -1}, "launch_ns"),
        ({"vector": {"fp32": 2}}, "no vector peak for fp64"),
        ({"vector": 7}, "table"),
        ({"matrix": {"fp31": 2}}, "did you mean"),
        ({"matrix": {"fp16": 0}}, "matrix peak fp16"),
        ({"bandwith": 5}, "did you mean bandwidth"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_figures_that_cannot_be_used_are_refused(tmp_path, change, what):
    with pytest.raises(UsageError, match=what):
        Device.from_fields({**GOOD, **change})
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({**GOOD, **change}))
    with pytest.raises(InputError, match=what) as caught:
        Device.from_file(path)
    assert caught.value.path == str(path)


@pytest.mark.parametrize("missing", GOOD)
def test_a_device_without_a_figure_is_refused(missing):
    with pytest.raises(UsageError, match=missing):
        Device.from_fields({name: value for name, value in GOOD.items() if name != missing})


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_file_that_describes_no_device_is_refused(tmp_path, content):
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match="not a description of a device"):
        Device.from_file(path)


def test_an_unknown_device_is_refused_with_what_was_meant():
    with pytest.raises(UsageError, match="did you mean a100-40gb"):
        device_named("a100-40g")
    with pytest.raises(UsageError, match="there are a100-40gb"):
        device_named("abacus")


def test_figures_that_no_vendor_publishes_are_what_the_docs_say():
    for device in DEVICES.values():
        assert device.matrix_peak("fp32") == device.vector["fp32"]
    for name in ("v100-16gb", "rtx-4090"):
        assert DEVICES[name].matrix["fp64"] == DEVICES[name].vector["fp64"]
    ada = DEVICES["rtx-4090"].vector
    assert ada["fp64"] == round(ada["fp32"] / 64, -11)
    assert "computed" in DEVICES["rtx-4090"].source


def test_the_table_in_the_docs_has_every_figure():
    page = (Path(__file__).parents[2] / "docs" / "costs.md").read_text()
    rows = {
        cells[1].strip(" `"): [cell.strip() for cell in cells[2:-1]]
        for cells in (line.split("|") for line in page.splitlines() if line.startswith("| `"))
    }
    for device in DEVICES.values():
        peaks = [device.vector[p] for p in ("fp64", "fp32")]
        peaks += [device.matrix.get(p) for p in ("fp64", "fp32", "tf32", "fp16", "bf16")]
        bandwidth, *shown, source = rows[device.name]
        assert float(bandwidth.replace(",", "")) * GIGA == device.bandwidth
        assert [None if s == "-" else round(float(s), 3) for s in shown] == [
            None if peak is None else round(peak / 10**12, 3) for peak in peaks
        ]
        assert source == device.source
