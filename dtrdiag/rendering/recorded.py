"""How does what was recorded of a PyTorch program look, as words and tables?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from dtrdiag.units import NOT_KNOWN, both_bytes, count, duration, plain_name, short_bytes

Document = Mapping[str, Any]


def recorded_words(document: Document) -> list[str]:
    """What was recorded, and where it is.

    Args:
        document: a `dtrdiag.record/1` document.
    """
    trace = document["trace"]
    peak = document["peak"]
    needs = "" if peak is None else f", needs {both_bytes(peak)} when dead storages are freed"
    tensors = " without values" if document["fake"] else ""
    return [
        f"Recorded {plain_name(trace['name'])}, a step of {count(trace['ops'], 'op')}{tensors}: "
        f"it has {both_bytes(document['constant_bytes'])} of constants{needs}, and takes "
        f"{duration(document['baseline_cost'])} when nothing is computed twice.",
        f"The log is in {document['file']} ({short_bytes(document['bytes'])}).",
    ]


def recorded_table(document: Document) -> Table:
    """Facts of a recording, one a row.

    Args:
        document: a `dtrdiag.record/1` document.
    """
    trace, peak = document["trace"], document["peak"]
    constants = f"{document['constants']:,}, {both_bytes(document['constant_bytes'])}"
    rows = {
        "ops": f"{trace['ops']:,}",
        "tensors": f"{trace['tensors']:,}",
        "storages": f"{trace['storages']:,}",
        "constants": constants,
        "peak (ratio 1)": NOT_KNOWN if peak is None else both_bytes(peak),
        "peak of the program": both_bytes(document["held_peak"]),
        "cost of each op once": duration(document["baseline_cost"]),
        "steps before": f"{document['warmup']:,}",
        **recording_rows(document["recording"]),
        "sha256": trace["sha256"],
    }
    return _facts(rows)


def recording_rows(recording: Document) -> dict[str, str]:
    """What the metadata of a recording says, by what it is called; what is not there is left out.

    Args:
        recording: as `dtrdiag.instrumentation.pytorch.logsink.recording_of` gives it.
    """
    costs = recording.get("costs")
    costs = costs if isinstance(costs, Mapping) else {}
    device = costs.get("device")
    if isinstance(device, Mapping):
        device = device.get("name")
    sizes = recording.get("sizes")
    random = recording.get("random")
    training = recording.get("training")
    rows = {
        "model": recording.get("model"),
        "mode": None if training is None else "training" if training else "evaluation",
        "optimizer": recording.get("optimizer"),
        "sizes": _pairs(sizes) if isinstance(sizes, Mapping) else None,
        "dtypes of parameters": _joined(recording.get("parameter_dtypes")),
        "random ops": _random(random) if isinstance(random, Mapping) else None,
        "costs": _joined([costs.get("model"), device]),
        "writes to constants": recording.get("writes"),
        "recorded with": _joined(["torch", recording["torch"]], " ")
        if "torch" in recording
        else None,
    }
    return {name: plain_name(str(value), width=200) for name, value in rows.items() if value}


def _pairs(sizes: Document) -> str:
    return ", ".join(f"{key}={value}" for key, value in sizes.items())


def _joined(parts: Any, between: str = ", ") -> str:
    return between.join(str(part) for part in parts or () if part)


def _random(random: Document) -> str:
    numbers = {name: len(ops) for name, ops in random.items() if isinstance(ops, list)}
    return ", ".join(f"{number} x {name}" for name, number in numbers.items())


def _facts(rows: Mapping[str, str]) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right", overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    return table
