"""Which of the nested calls of an execution trace are the operators of the step?

An operator may call others: `linear` calls `t` and `addmm`, and does nothing itself; `addmm` calls
`expand` and `copy_`, and the product is its own. Only the data says which is which. A call is taken
whole where those within it do not explain what it does, else they are taken in its place:

- they read nothing but its arguments and what they have made themselves, make every storage that it
  hands back, write all that it declares to write, and read all that it is given;
- none of them is the mere allocation (`empty`) of a result, which the call itself then fills, or
  fills one with a number (`zeros`) for others to write to.

A view is taken whole: what it calls are views as well. What is used after a call, but was made
within it and not handed back, such as the mask of a dropout, must be seen to be made: the call is
taken apart for it, or the trace is refused. A copy that autograd keeps of what an operator
overwrites is an operator by itself, and comes first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from dtrdiag.errors import TraceError
from dtrdiag.trace.builder import shown
from dtrdiag.trace.chakranodes import Node, TensorRef, walk

ACCUMULATE = "torch::autograd::AccumulateGrad"
"""Within it a gradient gets to where the optimizer finds it."""
_COLLECTIVE = "record_param_comms"
_ALLOCATIONS = ("aten::empty", "aten::new_empty")
_FILLS = ("aten::full", "aten::new_full", "aten::new_zeros", "aten::ones", "aten::zeros")


def operators(roots: list[Node], path: str) -> Iterator[tuple[Node, bool]]:
    """The operators of the step in order, each with whether it keeps a gradient.

    Takes time proportional to the number of calls, times how deep they are nested.

    Raises:
        TraceError: what an operator does cannot be told from the trace.
    """
    levels = _Levels(roots, path)
    stack = [(root, False) for root in reversed(roots)]
    taken = []
    while stack:
        node, keeps = stack.pop()
        if node.name == _COLLECTIVE:
            raise levels.error(node, "a collective, which one process cannot compute again")
        if node.is_op and levels.is_whole(node):
            taken += [(node.id, 0, child, keeps) for child in node.beside]
            taken.append((node.id, 1, node, keeps))
            continue
        if node.outputs and not node.is_op and not node.children:
            raise levels.error(node, "makes tensors, and has no schema that says how")
        keeps = keeps or node.name == ACCUMULATE
        stack.extend((child, keeps) for child in reversed(node.children))
    taken.sort(key=lambda each: (each[0], each[1], each[2].id))
    yield from ((node, keeps) for _, _, node, keeps in taken)


def _id_of(place: tuple[int, bool, TensorRef]) -> int:
    return place[0]


class _Levels:
    """Decides of each call whether it is one operator."""

    def __init__(self, roots: list[Node], path: str) -> None:
        self._path = path
        # Of each storage, the calls that mention it: id, whether it was made, the tensor.
        self._seen: dict[int, list[tuple[int, bool, TensorRef]]] = {}
        for node in walk(roots):
            fresh = node.fresh
            for ref in (*node.inputs, *(ref for ref in node.outputs if ref.storage in fresh)):
                place = (node.id, ref.storage in fresh, ref)
                self._seen.setdefault(ref.storage, []).append(place)
        for places in self._seen.values():
            places.sort(key=_id_of)

    def error(self, node: Node, what: str) -> TraceError:
        return TraceError(f"node {node.id} ({shown(node.name)}): {what}", path=self._path)

    def is_whole(self, node: Node) -> bool:
        """Whether a call is one operator, and not those within it."""
        within = list(_ops_within(node))
        if not within or _is_view(node, within):
            return True
        escaped = self._escaped(node, within)
        if not _is_explained(node, within):
            if escaped:
                node.beside = self._beside(node, within, escaped)
            return True
        return not escaped and _allocates(node, within)

    def _beside(self, node: Node, within: list[Node], escaped: set[int]) -> list[Node]:
        """The calls within one that overwrites its arguments which keep what is used later."""
        found = []
        for storage in sorted(escaped):
            about = [each for each in within if storage in each.fresh | each.reads]
            maker = about[0] if about else node
            if (
                not node.written
                or len(about) != 1
                or maker.name.startswith(_ALLOCATIONS)
                or not maker.reads <= node.reads
            ):
                raise self.error(
                    node,
                    f"makes what is used later (storage {storage}) and does not hand it back, "
                    "and the calls within it do not tell how",
                )
            found.append(maker)
        return list({each.id: each for each in found}.values())

    def _escaped(self, node: Node, within: Iterable[Node]) -> set[int]:
        """Storages that were made within a call, not handed back by it, and are used after it."""
        inner = (each for child in within for each in walk([child]))
        made = {ref.storage: ref for each in inner for ref in each.outputs}
        own = node.fresh | node.reads
        return {
            storage
            for storage, ref in made.items()
            if storage not in own and self._is_used(ref, node.last)
        }

    def _is_used(self, made: TensorRef, after: int) -> bool:
        """Whether the next call after one that mentions a storage uses it, and makes no other."""
        places = self._seen[made.storage]
        at = bisect_right(places, after, key=_id_of)
        if at == len(places):
            return False
        _, makes, ref = places[at]
        # Of other elements, or larger: another storage has its number, and was not seen to be made.
        same = ref.itemsize == made.itemsize and ref.reach_bytes <= made.reach_bytes
        return same and not makes


def _ops_within(node: Node) -> Iterator[Node]:
    """The outermost operators within a call."""
    stack = node.children[::-1]
    while stack:
        child = stack.pop()
        if child.is_op:
            yield child
        else:
            stack.extend(reversed(child.children))


def _is_view(node: Node, within: Iterable[Node]) -> bool:
    inner = (each for child in within for each in walk([child]))
    return not node.fresh and not node.written and not any(i.fresh or i.written for i in inner)


def _is_explained(node: Node, within: Iterable[Node]) -> bool:
    """Whether the calls within one do all that it does."""
    # What each storage there was computed from, among the arguments.
    origins = {storage: {storage} for storage in node.reads}
    written: set[int] = set()
    for child in within:
        if not child.reads <= origins.keys():
            return False
        origin = set().union(*(origins[storage] for storage in child.reads))
        for storage in child.fresh | child.written:
            origins[storage] = origin | origins.get(storage, set())
        written |= child.written
    if not (node.fresh <= origins.keys() and node.written <= written):
        return False
    results = {ref.storage for ref in node.outputs} | node.written
    used = set().union(*(origins.get(storage, set()) for storage in results))
    return node.reads <= used


def _allocates(node: Node, within: Iterable[Node]) -> bool:
    """Whether a call within one merely prepares a result, which is then filled in place."""
    sizes = {ref.storage: ref.reach_bytes for ref in node.outputs}
    prepared: set[int] = set()
    for child in within:
        results = {made for made in child.fresh if sizes.get(made, 0)}
        if child.name.startswith(_ALLOCATIONS) and results:
            return True
        if child.written & prepared:
            return True
        if child.name.startswith(_FILLS):
            prepared |= results
    return False
