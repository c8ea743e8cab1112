"""`report` shows a memory snapshot, alone and beside logs; no other verb takes one for its own."""

import json
import os
import pickle

import pytest

from dtrdiag.rendering.pages import page as page_module

FRAMES = [{"filename": "/home/model.py", "line": 7, "name": "forward"}]
EVENTS = [
    {"action": "segment_alloc", "addr": 0, "size": 2 << 20, "stream": 0, "frames": FRAMES},
    {"action": "alloc", "addr": 0, "size": 1 << 20, "stream": 0, "frames": FRAMES},
    {"action": "free_requested", "addr": 0, "size": 1 << 20, "stream": 0, "frames": []},
    {"action": "free_completed", "addr": 0, "size": 1 << 20, "stream": 0, "frames": []},
]
SEGMENT = {"device": 0, "address": 0, "total_size": 2 << 20, "stream": 0, "blocks": []}
VALUE = {"segments": [SEGMENT], "device_traces": [EVENTS]}


@pytest.fixture(autouse=True)
def no_bundle(monkeypatch):
    """The scripts of charts take seconds to put together, and are the same each time."""
    monkeypatch.setattr(page_module, "bundle", lambda: "/* scripts of charts */")


@pytest.fixture
def files(here):
    (here / "snapshot.pickle").write_bytes(pickle.dumps(VALUE))
    (here / "snapshot.json").write_text(json.dumps(VALUE))
    return here


@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.json"])
def test_a_page(answers, files, name):
    found = answers("report", name, "-o", "page.html", "--json").json
    assert (found["kind"], found["charts"]) == ("snapshot", ["device-0"])
    assert found["title"] == f"Memory snapshot {name}"
    text = (files / "page.html").read_text().replace("&nbsp;", " ")
    assert "At the peak, after event 2 of 4, 1,048,576 B (1.0 MiB) were allocated" in text
    assert "model.py:7 forward" in text


def test_a_page_beside_logs(answers, files, small, works):
    out = answers("report", small, "snapshot.pickle", works, "-o", "page.html").out
    assert out.startswith("At the peak, after event 2 of 4, ")
    text = (files / "page.html").read_text()
    assert "Beside the log of a run" in text
    assert "small.jsonl, chain-64 under dtr" in text
    assert "works.jsonl, recurrent-16 under dtr" in text


def test_what_does_not_fit_together_is_told_on_standard_error_and_on_the_page(dtrdiag, here):
    events = [EVENTS[1], EVENTS[1], EVENTS[2] | {"size": 70}]
    (here / "odd.json").write_text(json.dumps({"segments": [], "device_traces": [events]}))
    answer = dtrdiag("report", "odd.json", "-o", "page.html")
    assert answer.status == 0
    first, second = answer.err.splitlines()
    assert first.startswith("dtrdiag: note: odd.json: Device 0: 1 allocations were made where ano")
    assert second.endswith("frees of another size than their allocation, whose size is taken: 1.")
    text = (here / "page.html").read_text()
    for line in (first, second):
        assert line.partition("odd.json: ")[2] in text


@pytest.mark.parametrize("name", ["snapshot.pickle", "snapshot.json"])
@pytest.mark.parametrize(
    "words",
    ["run {}", "oom {}", "traces info {}", "map {} --from 0.5 --to 1", "replay {}", "diff {} {}",
     "verify {} --trace chain-64", "sweep {} --ratios 0.5", "traces convert {} -o x.log"],
)  # fmt: skip
def test_no_other_verb_takes_one(refuses, files, name, words):
    line = refuses(*words.format(name, name).split())
    assert line == (
        "a memory snapshot (or another pickle), which names no operators and cannot be simulated; "
        f"dtrdiag report shows one ({name})"
    )


class Hostile:
    """Pickled, it is a call."""

    def __reduce__(self):
        return os.system, ("touch made",)


REFUSED = {
    "a hostile one": (
        pickle.dumps({"segments": Hostile()}),
        "refused and not run: STACK_GLOBAL of",
    ),
    "a cut one": (pickle.dumps(VALUE)[:100], "the pickle ends in the middle"),
    "another pickle": (pickle.dumps([1]), "no memory snapshot: neither segments nor device_traces"),
}


@pytest.mark.parametrize(("content", "text"), REFUSED.values(), ids=[*REFUSED])
def test_what_is_no_snapshot_is_one_line(refuses, here, content, text):
    (here / "bad.pickle").write_bytes(content)
    assert text in refuses("report", "bad.pickle", "-o", "page.html")
    assert not (here / "made").exists()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("snapshot.pickle snapshot.json", "a page is about one of these, not 2: a memory snapshot"),
        ("snapshot.pickle chain-64", "no page about a memory snapshot and a trace together"),
        ("snapshot.pickle -b 3", "-b does not apply to a memory snapshot (snapshot.pickle)"),
        ("snapshot.pickle LOG -p dtr", "-p does not apply to a memory snapshot (snapshot.pickle)"),
    ],
)
def test_what_there_is_no_page_about(refuses, files, small, words, text):
    arguments = words.replace("LOG", str(small)).split()
    assert text in refuses("report", *arguments, "-o", "page.html")
