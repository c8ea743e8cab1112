"""How is an execution trace of PyTorch, in Chakra's schema, read as a trace?

`torch.profiler.ExecutionTraceObserver` writes which operators ran, on which tensors of which
storages. That is enough for dependencies and sizes; what it does not say, and what is done about
that, stands in docs/doors.md. What does not suffice is refused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

import attrs
import orjson

from dtrdiag.files import ARCHIVE_SEPARATOR, read_bytes
from dtrdiag.trace.builder import TraceBuilder, shown
from dtrdiag.trace.chakraencoding import Encoder, Operator, Storage, tell_apart
from dtrdiag.trace.chakralevels import operators
from dtrdiag.trace.chakranodes import read_nodes
from dtrdiag.trace.jsondocs import Place, check_keys, parse_document
from dtrdiag.trace.kineto import read_durations
from dtrdiag.trace.model import Trace
from dtrdiag.units import count, exact_bytes

CHAKRA = "chakra"
BY_BYTES = "bytes"
STAND_INS = (BY_BYTES,)
"""What can stand in for durations, where it is asked for."""
LAUNCH_NS, BYTES_PER_NS, VIEW_NS = 4_000, 600, 500
DURATIONS_SUFFIX = ".kineto.json"
"""What follows the name of an execution trace in that of the profiler's, beside it."""
_RANDOM = (
    "bernoulli", "cauchy", "dropout", "exponential", "geometric", "log_normal", "multinomial",
    "normal", "poisson", "rand", "rrelu_with_noise", "uniform",
)  # fmt: skip


@attrs.frozen(slots=True)
class ExecutionTrace:
    """An execution trace as a trace, and what to know of it.

    Attributes:
        trace: the trace.
        costs: where costs come from: the path of the profiler's trace, or a stand-in.
        operators: operators of the step.
        views: views among their results.
        in_place: writes to storages that the step made.
        constants: storages that nothing was seen to make.
        constant_bytes: their sizes together.
        constants_gone: those of them that were gone before the end.
        constant_writes: writes to constants, which are modelled as no new version.
        random: operators with a random result.
        unfinished: calls that an exception ended, as checkpoints do.
    """

    trace: Trace
    costs: str
    operators: int
    views: int
    in_place: int
    constants: int
    constant_bytes: int
    constants_gone: int
    constant_writes: int
    random: int
    unfinished: int

    def notes(self) -> list[str]:
        """What a reader of any result should know, in sentences."""
        found = [
            f"{count(self.constants, 'storage')} that no operator made became constants "
            f"({exact_bytes(self.constant_bytes)})"
            + (f", of which {self.constants_gone:,} were gone later" * bool(self.constants_gone)),
        ]
        if self.constant_writes:
            found.append(f"{count(self.constant_writes, 'write')} to constants made no new version")
        if self.random:
            found.append(f"{count(self.random, 'operator')} drew random numbers")
        if self.unfinished:
            found.append(f"{count(self.unfinished, 'call')} did not finish")
        if self.costs in STAND_INS:
            found.append("costs are a stand-in by bytes, and no durations")
        return found


def read_execution_trace(
    source: str | os.PathLike[str],
    *,
    durations: str | None = None,
    costs: str | None = None,
    name: str | None = None,
) -> ExecutionTrace:
    """Read an execution trace.

    Args:
        source: a file (plain, .gz, .zst) or `archive.zip::PART`.
        durations: the profiler's trace of the same run; None: the file beside it that is called
            `X.kineto.json` where the source is `X.json`, if it is there.
        costs: what stands in for durations: `bytes`, or None, nothing does.
        name: short name of the trace; by default that of the file.

    Raises:
        InputError: a file cannot be read.
        TraceError: it does not say enough, or there are no durations.
    """
    path = os.fspath(source)
    if durations is None and costs is None:
        durations = durations_beside(path)
    return parse_execution_trace(
        read_bytes(path),
        name=name or os.path.basename(path),
        path=path,
        durations=durations,
        costs=costs,
    )


def parse_execution_trace(
    content: bytes,
    *,
    name: str,
    path: str = "<memory>",
    durations: str | None = None,
    costs: str | None = None,
) -> ExecutionTrace:
    """Read an execution trace from its uncompressed bytes; see `read_execution_trace`."""
    document = Place(parse_document(content, path), path)
    check_keys(content, document.fields, path)
    schema = document.text("schema")
    if CHAKRA not in schema or not schema.startswith("1."):
        raise document.error(f"schema is {shown(schema)}, and 1.x.x-chakra is what is read")
    if durations is None and costs is None:
        raise document.error(
            "an execution trace without durations: the profiler's trace of the same run can stand "
            f"beside it as {_beside(os.path.basename(path))}; or, with a stand-in by bytes: "
            f"dtrdiag traces convert {path} --costs bytes -o FILE.log"
        )
    if costs is not None and costs not in STAND_INS:
        raise document.error(f"no stand-in {shown(costs)}; there is {', '.join(STAND_INS)}")
    roots, unfinished = read_nodes(document)
    found, constants = tell_apart(operators(roots, path))
    if not found:
        raise document.error("no operator in it: it was stopped before anything ran")
    if durations is not None:
        by_node = read_durations(durations).costs_ns(operator.node for operator in found)
    else:
        by_node = {operator.node.id: _by_bytes(operator) for operator in found}
    encoder = Encoder(found, constants, by_node)
    builder = TraceBuilder(name, path)
    encoder.encode(builder)
    facts = _facts(encoder, found, constants) | {"unfinished": unfinished}
    source = durations or costs or ""
    trace = builder.build(hashlib.sha256(content).hexdigest(), _preamble(schema, source, facts))
    return ExecutionTrace(trace, source, **facts)


def durations_beside(path: str) -> str | None:
    """The profiler's trace beside an execution trace; None: there is none."""
    beside = _beside(path)
    return beside if ARCHIVE_SEPARATOR not in path and os.path.isfile(beside) else None


def _beside(path: str) -> str:
    stem = path
    for suffix in (".gz", ".zst", ".json"):
        stem = stem.removesuffix(suffix)
    return stem + DURATIONS_SUFFIX


def _by_bytes(operator: Operator) -> int:
    """A stand-in: a launch, and the bytes of arguments and results at a usual bandwidth."""
    if not operator.made and not operator.written:
        return VIEW_NS
    storages = {storage for _, storage in (*operator.inputs, *operator.outputs)}
    moved = sum(storage.size_bytes for storage in storages)
    return LAUNCH_NS + -(-moved // BYTES_PER_NS)


def _facts(
    encoder: Encoder, found: Sequence[Operator], constants: Sequence[Storage]
) -> dict[str, int]:
    return {
        "operators": encoder.counts.operators,
        "views": encoder.counts.views,
        "in_place": encoder.counts.in_place,
        "constants": len(constants),
        "constant_bytes": sum(storage.size_bytes for storage in constants),
        "constants_gone": sum(storage.gone for storage in constants),
        "constant_writes": encoder.counts.constant_writes,
        "random": sum(_is_random(operator.node.name) for operator in found),
    }


def _is_random(name: str) -> bool:
    base = name.rpartition("::")[2].strip("_")
    return base.removeprefix("native_").startswith(_RANDOM) and not base.endswith("backward")


def _preamble(schema: str, costs: str, facts: dict[str, int]) -> list[str]:
    """What a DTR log made from it says of where it comes from, before its START."""
    told = {"execution trace": schema, "costs": os.path.basename(costs), **facts}
    text = orjson.dumps(told).decode()
    return [
        orjson.dumps({"ANNOTATION": text, "INSTRUCTION": "ANNOTATE"}).decode(),
        '{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}',
    ]
