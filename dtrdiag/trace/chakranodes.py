"""What do the nodes of an execution trace say: which tensors go in and out, and what is written?

A node is a call that PyTorch's `ExecutionTraceObserver` saw: an operator, or what was called around
operators. Calls that happen within another are its children. Tensors stand as
`[tensor, storage, offset, numel, itemsize, device]`; tensor and storage are numbers for objects,
which are given again once an object is gone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import attrs

from dtrdiag.errors import TraceError
from dtrdiag.trace.builder import MAX_BYTES, shown
from dtrdiag.trace.jsondocs import Place

_TENSOR, _LIST = "Tensor(", "GenericList["
_UNDEFINED = "Tensor(nullptr"
MAX_DEPTH = 256
"""Of operators within operators: time to read grows with it."""
NUMBER_BYTES = 8
"""Of a number of Python, as a tensor."""


@attrs.frozen(slots=True)
class TensorRef:
    """A tensor as an argument or result.

    Attributes:
        tensor: its number.
        storage: that of its storage.
        reach_bytes: how far into its storage it reaches.
        itemsize: bytes of an element.
        is_scalar: whether it has no dimensions.
    """

    tensor: int
    storage: int
    reach_bytes: int
    itemsize: int
    is_scalar: bool


@attrs.define(slots=True)
class Node:
    """One call.

    Attributes:
        id: numbers calls in the order in which they began.
        parent: id of the call within which it happened; its own for the outermost.
        name: such as `aten::addmm`.
        rf_id: number of the call in the profiler's trace; None: it has none.
        is_op: whether it is an operator with a schema.
        inputs: tensors among its arguments, in order.
        outputs: tensors among its results, in order.
        written: storages that it writes, by its schema.
        made_by_out: those of them that are the destination of the result (`out=`).
        children: in order.
        beside: those of them that are operators of their own beside this one.
        last: the highest id of a call within it.
    """

    id: int
    parent: int
    name: str
    rf_id: int | None
    is_op: bool
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    written: frozenset[int]
    made_by_out: frozenset[int]
    children: list[Node] = attrs.field(factory=list, repr=False)
    beside: list[Node] = attrs.field(factory=list, repr=False)
    last: int = 0

    @property
    def reads(self) -> frozenset[int]:
        """Storages of its arguments."""
        return frozenset(ref.storage for ref in self.inputs)

    @property
    def fresh(self) -> frozenset[int]:
        """Storages of its results that are none of its arguments': it made them."""
        return frozenset(ref.storage for ref in self.outputs) - self.reads


def read_nodes(document: Place) -> tuple[list[Node], int]:
    """The outermost calls, each with what happened within it, in the order in which they began.

    And how many calls did not finish: an exception that ends a call, as checkpoints raise one,
    keeps PyTorch from writing it. What happened within such a call counts as outermost.

    Raises:
        TraceError: a node is not as PyTorch writes it, or says too little.
    """
    nodes: dict[int, Node] = {}
    for at, fields in enumerate(document.items("nodes")):
        place = Place(fields, document.path, f"node {at}")
        if not isinstance(fields, dict):
            raise place.error(f"not an object: {shown(fields)}")
        node = _node(place)
        if node.id in nodes:
            raise place.error("another node has this id")
        nodes[node.id] = node
    ordered = sorted(nodes.values(), key=lambda node: node.id)
    roots = []
    unfinished = set()
    depths: dict[int, int] = {}
    for node in ordered:
        node.last = node.id
        if node.parent not in nodes:
            unfinished.add(node.parent)
            node.parent = node.id
        if node.parent == node.id:
            roots.append(node)
            continue
        if node.parent > node.id:
            raise Place({}, document.path, f"node {node.id} ({shown(node.name)})").error(
                f"began before node {node.parent}, within which it happened"
            )
        nodes[node.parent].children.append(node)
        depths[node.id] = depths.get(node.parent, 0) + nodes[node.parent].is_op
        if depths[node.id] > MAX_DEPTH:
            raise Place({}, document.path, f"node {node.id} ({shown(node.name)})").error(
                f"operators within operators, more than {MAX_DEPTH} levels"
            )
    for node in reversed(ordered):
        if node.parent != node.id:
            nodes[node.parent].last = max(nodes[node.parent].last, node.last)
    _drop_numbers(ordered)
    return roots, len(unfinished)


def _drop_numbers(ordered: list[Node]) -> None:
    """Take away arguments that are numbers: no operator makes the tensors that hold them.

    PyTorch wraps a number of Python in a tensor of 8 bytes without dimensions, which may be given
    the numbers of a tensor and a storage that are gone.
    """
    handed_back: set[tuple[int, int]] = set()
    for node in ordered:
        node.inputs = tuple(
            ref
            for ref in node.inputs
            if not (ref.is_scalar and ref.itemsize == NUMBER_BYTES)
            or ref.storage in node.written
            or (ref.tensor, ref.storage) in handed_back
        )
        handed_back.update((ref.tensor, ref.storage) for ref in node.outputs)


def walk(roots: list[Node]) -> Iterator[Node]:
    """All calls, each before what happened within it."""
    stack = roots[::-1]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(node.children))


def _node(place: Place) -> Node:
    number = place.integer("id")
    name = place.text("name")
    place.where = f"node {number} ({shown(name)})"
    attributes = _attributes(place)
    schema = attributes.get("op_schema") or ""
    if not isinstance(schema, str):
        raise place.error(f"op_schema is not a text: {shown(schema)}")
    if attributes.get("kernel_backend"):
        raise place.error(
            f"made by a compiler ({shown(attributes['kernel_backend'])}): what its kernels write "
            "is not said; record without torch.compile"
        )
    inputs, outputs = place.part("inputs"), place.part("outputs")
    arguments = list(_arguments(inputs))
    results = [ref for refs in _arguments(outputs) for ref in refs]
    written, out = _written(place, schema, arguments)
    rf_id = attributes.get("rf_id")
    return Node(
        number,
        place.integer("ctrl_deps"),
        name,
        rf_id if isinstance(rf_id, int) and rf_id > 0 else None,
        bool(schema),
        tuple(ref for refs in arguments for ref in refs),
        tuple(results),
        written,
        out,
    )


def _attributes(place: Place) -> dict[str, Any]:
    found = {}
    for fields in place.items("attrs"):
        if not isinstance(fields, dict) or not isinstance(fields.get("name"), str):
            raise place.error(f"an attribute is no object with a name: {shown(fields)}")
        if fields["name"] in found:
            raise place.error(f"two attributes {shown(fields['name'])}")
        found[fields["name"]] = fields.get("value")
    return found


def _arguments(place: Place) -> Iterator[list[TensorRef]]:
    """The tensors in each argument, or result."""
    if "strides" not in place.fields:
        raise place.error("there are no strides, so sizes of views cannot be told: record anew")
    columns = [place.items(field) for field in ("values", "types", "shapes", "strides")]
    if len({len(column) for column in columns}) > 1:
        raise place.error("values, types, shapes and strides differ in length")
    for value, kind, shape, stride in zip(*columns, strict=True):
        if not isinstance(kind, str):
            raise place.error(f"a type is not a text: {shown(kind)}")
        if kind.startswith(_TENSOR):
            yield list(_tensors(place, [value], [kind], [shape], [stride]))
        elif kind.startswith(_LIST) and _TENSOR in kind:
            kinds = kind[len(_LIST) : -1].split(",")
            yield list(_tensors(place, value, kinds, shape, stride))
        else:
            yield []


def _tensors(place: Place, *columns: Any) -> Iterator[TensorRef]:
    if not all(isinstance(column, list) for column in columns):
        raise place.error(f"a list of tensors is no list: {shown(columns[0])}")
    if len({len(column) for column in columns}) > 1:
        raise place.error("a list of tensors and its types, shapes or strides differ in length")
    for value, kind, shape, stride in zip(*columns, strict=True):
        if kind.startswith(_TENSOR) and not kind.startswith(_UNDEFINED):
            yield _tensor(place, value, shape, stride)


def _tensor(place: Place, value: Any, shape: Any, stride: Any) -> TensorRef:
    numbers = value[:5] if isinstance(value, list) else []
    if len(numbers) < 5 or not all(_is_count(number) for number in numbers):
        raise place.error(f"a tensor is not six values, whole numbers first: {shown(value)}")
    tensor, storage, offset, numel, itemsize = numbers
    if not storage:
        raise place.error(f"a tensor without a storage: {shown(value)}")
    if not _are_counts(shape) or not _are_counts(stride) or len(shape) != len(stride):
        raise place.error(f"a tensor's shape and strides are no sizes: {shown([shape, stride])}")
    if numel != math.prod(shape):
        raise place.error(f"a tensor of {numel} elements has the shape {shown(shape)}")
    if numel and not itemsize:
        raise place.error(f"a tensor of elements without bytes: {shown(value)}")
    reach = 0
    if numel:
        reach = offset + 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    if reach * itemsize > MAX_BYTES:
        raise place.error(f"a tensor is absurdly large: {shown(value)}")
    return TensorRef(tensor, storage, reach * itemsize, itemsize, not shape)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(_is_count(value) for value in values)


def _written(
    place: Place, schema: str, arguments: list[list[TensorRef]]
) -> tuple[frozenset[int], frozenset[int]]:
    """Storages that are written by what the schema declares, and those by `out=` among them."""
    try:
        declared = list(_declared(schema)) if schema else []
    except TraceError as error:
        raise place.error(error.what) from None
    if not any(written for written, _ in declared):
        return frozenset(), frozenset()
    if len(declared) != len(arguments):
        raise place.error(
            f"its schema has {len(declared)} arguments and the node {len(arguments)}, so what it "
            "writes cannot be told"
        )
    storages = [frozenset(ref.storage for ref in refs) for refs in arguments]
    pairs = list(zip(declared, storages, strict=True))
    return (
        frozenset().union(*(found for (written, _), found in pairs if written)),
        frozenset().union(*(found for (written, out), found in pairs if written and out)),
    )


def _declared(schema: str) -> Iterator[tuple[bool, bool]]:
    """Of each argument: whether it is written, and whether it comes after the `*`."""
    depth, start, keyword = 0, schema.find("(") + 1, False
    for at in range(start, len(schema)):
        char = schema[at]
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        if (char == "," and depth == 0) or depth < 0:
            text = schema[start:at].strip()
            if text == "*":
                keyword = True
            elif text:
                yield "!" in text.split(" ")[0], keyword
            start = at + 1
        if depth < 0:
            return
    raise TraceError("an op_schema without an end")
