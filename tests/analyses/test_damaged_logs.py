"""A damaged log is refused by every analysis with an error that says so."""

from pathlib import Path

import attrs
import pytest

from dtrdiag.analyses import dependency_graph, pinned_frontier
from dtrdiag.errors import LogError
from dtrdiag.log import read_events

FOREIGN = Path(__file__).parents[1] / "data" / "foreign-runtime.jsonl"


def test_an_oom_of_an_op_that_was_never_called_is_refused():
    events = [
        attrs.evolve(event, op=99) if event.kind == "oom" else event
        for event in read_events(FOREIGN)
    ]
    with pytest.raises(LogError, match="names 99, which no op event introduced"):
        pinned_frontier(events)


def test_an_output_in_a_storage_that_no_op_made_is_refused():
    events = read_events(FOREIGN)
    last = [event for event in events if event.kind == "op"][-1]
    changed = attrs.evolve(last, storages=tuple(77 for _ in last.storages))
    damaged = [changed if event is last else event for event in events]
    with pytest.raises(LogError, match="names 77, which no op event introduced"):
        dependency_graph(damaged)
