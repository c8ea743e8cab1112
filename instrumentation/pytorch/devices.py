"""How fast are the devices that costs can be computed for, and who says so?

Figures are those that vendors publish, without structured sparsity, but for a few that follow from
them: docs/costs.md says which. No kernel reaches them; what matters to a policy is how the costs of
ops compare, on one device.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

import attrs

from dtrdiag.errors import InputError, UsageError
from dtrdiag.files import read_bytes
from dtrdiag.suggestions import no_such

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LAUNCH_NS = 1_000
"""What every op costs besides arithmetic and traffic, unless a device says otherwise.

An estimate of ours, which no data sheet has.
Kernels that follow each other on a GPU are about a microsecond apart when launching them is hidden
behind those that run, and calling an op of PyTorch on a CPU takes about as long. It also keeps an
op on a few bytes from costing nothing, which would make its result the first to be evicted always.
"""
VECTOR_PRECISIONS = ("fp64", "fp32")
MATRIX_PRECISIONS = ("fp64", "fp32", "tf32", "fp16", "bf16")

_TERA = 10**12
_GIGA = 10**9
_FIELDS = ("name", "title", "source", "bandwidth", "vector", "matrix", "launch_ns")


def _peaks(known: tuple[str, ...], required: tuple[str, ...]) -> Any:
    def check(device: Device, attribute: Any, value: Mapping[str, int]) -> None:
        what = f"{attribute.name} peak"
        if not isinstance(value, Mapping):
            raise UsageError(f"{what}s are a table from precision to FLOP/s, not {value!r}")
        for precision, peak in value.items():
            if precision not in known:
                raise UsageError(no_such(what, precision, known))
            _positive(f"{what} {precision}", peak)
        for precision in required:
            if precision not in value:
                raise UsageError(f"device {device.name}: no {what} for {precision}")

    return check


def _positive(what: str, value: object, least: int = 1) -> None:
    # Floats are refused: their rounding would make costs depend on who computes them.
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{what} is a whole number from {least} on, not {value!r}")


@attrs.frozen
class Device:
    """A device, by its published figures.

    Raises:
        UsageError: a figure is missing, is not a positive whole number, or is of no known kind.
    """

    name: str = attrs.field(validator=attrs.validators.instance_of(str))
    """Short name, such as `a100-40gb`."""
    bandwidth: int = attrs.field()
    """Bytes a second between the device and its memory."""
    vector: Mapping[str, int] = attrs.field(validator=_peaks(VECTOR_PRECISIONS, ("fp64", "fp32")))
    """FLOP/s of whatever is not a product of matrices, by precision: `fp64` and `fp32`."""
    matrix: Mapping[str, int] = attrs.field(validator=_peaks(MATRIX_PRECISIONS, ()), factory=dict)
    """FLOP/s of products of matrices and convolutions: `fp64`, `fp32`, `tf32`, `fp16`, `bf16`.

    Absent: as `fp32`, which if absent is as in `vector`.
    """
    launch_ns: int = attrs.field(default=LAUNCH_NS)
    """Nanoseconds that every op takes besides."""
    title: str = ""
    """Its full name."""
    source: str = ""
    """The title of the document with these figures."""

    @bandwidth.validator
    def _check_bandwidth(self, attribute: Any, value: int) -> None:
        _positive("bandwidth", value)

    @launch_ns.validator
    def _check_launch(self, attribute: Any, value: int) -> None:
        _positive("launch_ns", value, least=0)

    def matrix_peak(self, precision: str) -> int:
        """FLOP/s of products of matrices in a precision; the precisions above, others as `fp16`."""
        if precision == "fp64":
            return self.matrix.get("fp64", self.vector["fp64"])
        full = self.matrix.get("fp32", self.vector["fp32"])
        if precision in MATRIX_PRECISIONS:
            return self.matrix.get(precision, full)
        return self.matrix.get("fp16", full)

    def vector_peak(self, precision: str) -> int:
        """FLOP/s of anything else; half precisions and integers are computed as `fp32`."""
        return self.vector["fp64" if precision == "fp64" else "fp32"]

    def describe(self) -> dict[str, Any]:
        """Every figure, for the metadata of a recording; FLOP/s, bytes/s, ns."""
        return {field: value for field, value in self._fields() if value != ""}

    def _fields(self) -> list[tuple[str, Any]]:
        values = ((field, getattr(self, field)) for field in _FIELDS)
        return [(field, dict(v) if isinstance(v, Mapping) else v) for field, v in values]

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Device:
        """The device with such figures, as `describe` gives them.

        Raises:
            UsageError: a field is unknown, missing or of the wrong kind.
        """
        for field in fields:
            if field not in _FIELDS:
                raise UsageError(no_such("field of a device", field, _FIELDS))
        for field in ("name", "bandwidth", "vector"):
            if field not in fields:
                raise UsageError(f"a device has a {field}; there is none here")
        return cls(**fields)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Device:
        """A device described in a file, `.toml` or `.json`, with the fields of this class.

        Raises:
            InputError: there is no such file, it is not well formed, or a figure cannot be used.
        """
        path = os.fspath(path)
        data = read_bytes(path)
        try:
            text = data.decode()
            fields = json.loads(text) if path.endswith(".json") else tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # of all that the three raise
            raise InputError(f"not a description of a device: {error}", path=path) from error
        if not isinstance(fields, dict):
            raise InputError("not a description of a device: no fields", path=path)
        try:
            return cls.from_fields(fields)
        except UsageError as error:
            raise InputError(error.what, path=path) from error


def _nvidia(
    name: str, title: str, source: str, gigabytes: int, tera: dict[str, dict[str, float]]
) -> Device:
    peaks = {
        unit: {precision: round(peak * 10) * (_TERA // 10) for precision, peak in figures.items()}
        for unit, figures in tera.items()
    }
    return Device(
        name=name, title=title, source=source, bandwidth=gigabytes * _GIGA,
        vector=peaks["vector"], matrix=peaks["matrix"],
    )  # fmt: skip


# Matrices of fp32 without TF32 run on the vector units, so that figure stands twice.
_A100 = {
    "vector": {"fp64": 9.7, "fp32": 19.5},
    "matrix": {"fp64": 19.5, "fp32": 19.5, "tf32": 156, "fp16": 312, "bf16": 312},
}
_HOPPER = {
    "vector": {"fp64": 33.5, "fp32": 66.9},
    "matrix": {"fp64": 66.9, "fp32": 66.9, "tf32": 494.7, "fp16": 989.4, "bf16": 989.4},
}

DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _nvidia(
            "a100-40gb", "NVIDIA A100 40GB",
            "NVIDIA A100 Tensor Core GPU data sheet", 1_555, _A100,
        ),
        _nvidia(
            "a100-80gb", "NVIDIA A100 80GB SXM",
            "NVIDIA A100 Tensor Core GPU data sheet", 2_039, _A100,
        ),
        _nvidia(
            "h100-sxm", "NVIDIA H100 SXM5 80GB",
            "NVIDIA H100 Tensor Core GPU Architecture (white paper); "
            "bandwidth: NVIDIA H100 Tensor Core GPU data sheet",
            3_350, _HOPPER,
        ),
        _nvidia(
            "v100-16gb", "NVIDIA V100 SXM2 16GB",
            "NVIDIA V100 Tensor Core GPU data sheet", 900,
            # Tensor cores know fp16 alone; fp64 and fp32 are the vectors'.
            {
                "vector": {"fp64": 7.8, "fp32": 15.7},
                "matrix": {"fp64": 7.8, "fp32": 15.7, "fp16": 125},
            },
        ),
        _nvidia(
            "rtx-4090", "NVIDIA GeForce RTX 4090",
            "NVIDIA Ada GPU Architecture (white paper), with accumulation in fp32; "
            "fp64: computed, a 64th of fp32", 1_008,
            {
                "vector": {"fp64": 1.3, "fp32": 82.6},
                "matrix": {"fp64": 1.3, "fp32": 82.6, "tf32": 82.6, "fp16": 165.2, "bf16": 165.2},
            },
        ),
        Device(
            name="epyc-7763", title="AMD EPYC 7763, one socket",
            source="AMD EPYC 7003 Series Processors data sheet: 64 cores at 2.45 GHz, eight "
            "channels of DDR4-3200; two FMA units of 256 bits a core: AMD Software Optimization "
            "Guide for Family 19h",
            bandwidth=204_800_000_000,
            # cores x Hz x units x lanes x 2 (a product and a sum)
            vector={
                "fp64": 64 * 2_450_000_000 * 2 * 4 * 2,
                "fp32": 64 * 2_450_000_000 * 2 * 8 * 2,
            },
        ),
    )
}  # fmt: skip
"""The devices that are known by name."""
DEFAULT_DEVICE = "a100-40gb"


def device_named(name: str | Device) -> Device:
    """A device by its name, or one as it is.

    Raises:
        UsageError: none has that name.
    """
    if isinstance(name, Device):
        return name
    if name not in DEVICES:
        raise UsageError(no_such("device", name, DEVICES))
    return DEVICES[name]
