"""Memory snapshots: records of what a file holds, and one line for what is none."""

import copy
import gzip
import json
import pickle

import pytest

from dtrdiag.errors import InputError, SnapshotError
from dtrdiag.log import is_snapshot, read_snapshot, snapshots

FRAMES = [
    {"filename": "/site-packages/torch/nn/functional.py", "line": 12, "name": "linear"},
    {"filename": "/home/model.py", "line": 7, "name": "forward", "fx_node_op": "call_function"},
]
ALLOC = {"action": "alloc", "addr": 4096, "size": 1000, "stream": 0, "frames": FRAMES, "time_us": 5}
FREE = {"action": "free_completed", "addr": 4096, "size": 1000, "stream": 0}
OOM = {"action": "oom", "size": 1 << 30, "stream": 0, "frames": FRAMES, "device_free": 77}
SEGMENT = {
    "device": 1,
    "address": 4096,
    "total_size": 2048,
    "stream": 0,
    "segment_type": "small",
    "segment_pool_id": (0, 0),
    "blocks": [
        {"size": 1024, "requested_size": 1000, "state": "active_allocated", "frames": FRAMES},
        {"size": 1024, "state": "inactive"},
    ],
}
VALUE = {
    "segments": [SEGMENT],
    "device_traces": [[], [ALLOC, FREE, OOM, {"action": "snapshot", "addr": 0, "size": 0}]],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1},
    "external_annotations": [],
}


def written(folder, value, how):
    path = folder / f"snapshot.{how}"
    if how == "json":
        path.write_text(json.dumps(value))
    elif how == "gz":
        path.write_bytes(gzip.compress(pickle.dumps(value)))
    else:
        path.write_bytes(pickle.dumps(value, int(how)))
    return str(path)


def test_a_snapshot_in_another_encoding_is_refused_by_it(tmp_path):
    path = tmp_path / "other.json"
    path.write_bytes(json.dumps(VALUE).encode("utf-16"))
    with pytest.raises(SnapshotError, match="the text is in UTF-16"):
        read_snapshot(str(path))


@pytest.mark.parametrize("how", ["2", "4", "5", "json", "gz"])
def test_what_is_in_it_whatever_it_is_written_as(how, tmp_path):
    path = written(tmp_path, VALUE, how)
    assert is_snapshot(path)
    (device,) = read_snapshot(path).devices
    alloc, free, oom, mark = device.events
    assert device.device == 1
    assert (alloc.action, alloc.address, alloc.size_bytes, alloc.time_us) == (
        "alloc",
        4096,
        1000,
        5,
    )
    assert [(f.file, f.line, f.function) for f in alloc.frames] == [
        ("/site-packages/torch/nn/functional.py", 12, "linear"),
        ("/home/model.py", 7, "forward"),
    ]
    assert (free.frames, free.time_us) == ((), None)
    assert (oom.address, oom.size_bytes, oom.device_free_bytes) == (None, 1 << 30, 77)
    assert mark.action == "snapshot"
    (segment,) = device.segments
    assert [(b.address, b.requested_bytes, b.state) for b in segment.blocks] == [
        (4096, 1000, "active_allocated"),
        (5120, 1024, "inactive"),
    ]


def test_other_files_are_none(tmp_path):
    for content in (b"", b"{", b'{"INSTRUCTION": "CONSTANT"}', b"\x80", b"\x80\x09.", b"\x1f\x8b"):
        path = tmp_path / "file.gz"
        path.write_bytes(content)
        assert not is_snapshot(str(path))
    assert not is_snapshot(str(tmp_path))


def changed(place, **fields):
    value = copy.deepcopy(VALUE)
    target = value
    for step in place:
        target = target[step]
    target.update(fields)
    return value


EVENT, OOMED = ("device_traces", 1, 0), ("device_traces", 1, 2)
PART, BLOCK = ("segments", 0), ("segments", 0, "blocks", 0)
BAD = {
    "a list": ([1], "the file: no memory snapshot: neither segments nor device_traces"),
    "a text": ("x", "the file: no memory snapshot"),
    "another document": ({"model": 1}, "the file: no memory snapshot"),
    "nothing": ({"segments": [], "device_traces": [[]]}, "a memory snapshot of no device at all"),
    "segments no list": ({"segments": 7}, "segments: not a list: 7"),
    "a segment no dict": ({"segments": [[]]}, "segment 0: not a dict: a list of 0"),
    "traces no list": ({"device_traces": {}}, "device_traces: not a list: a dict of 0"),
    "events no list": ({"device_traces": [3]}, "device_traces[0]: not a list: 3"),
    "an event no dict": ({"device_traces": [[None]]}, "event 0 of device 0: not a dict: None"),
    "no action": (changed(EVENT, action=None), "event 0 of device 1: no action: None"),
    "no address": (changed(EVENT, addr=None), "addr is no size or address: None"),
    "an address as text": (changed(EVENT, addr="0x7f"), 'addr is no size or address: "0x7f"'),
    "a size that is true": (changed(EVENT, size=True), "size is no size or address: True"),
    "a size that is half": (changed(EVENT, size=0.5), "size is no size or address: 0.5"),
    "a negative size": (changed(EVENT, size=-1), "size is no size or address: -1"),
    "an absurd size": (changed(EVENT, size=1 << 61), "size is absurdly large"),
    "what was left as text": (changed(OOMED, device_free="x"), "device_free is no size"),
    "frames no list": (changed(EVENT, frames={}), "event 0 of device 1, frames: not a list"),
    "a frame no dict": (changed(EVENT, frames=[1]), "a frame: not a dict: 1"),
    "a frame's line as text": (
        changed(EVENT, frames=[{"filename": "x", "line": "1", "name": "f"}]),
        "a frame is no file, line and name: a dict of 3",
    ),
    "a segment's size": (changed(PART, total_size=None), "segment 0: total_size is no size"),
    "a device as text": (changed(PART, device="cuda:0"), 'device is no size or address: "cuda:0"'),
    "blocks no list": (changed(PART, blocks=1), "segment 0, blocks: not a list: 1"),
    "a block no dict": (changed(PART, blocks=[1]), "segment 0, block 0: not a dict: 1"),
    "a block's state": (changed(BLOCK, state=3), "segment 0, block 0: no state: 3"),
    "a block's unknown state": (
        changed(BLOCK, state="weird"),
        'segment 0, block 0: no state "weird"; there are active_allocated, active_awaiting_free, ',
    ),
    "a block before its segment": (
        changed(BLOCK, address=4095),
        "segment 0, block 0: begins at 4095, before 4096: outside its segment, or in another",
    ),
    "a block beyond its segment": (
        changed(BLOCK, size=3000, address=4100),
        "segment 0, block 0: 3000 bytes at 4100 end outside its segment of 2048 bytes at 4096",
    ),
    "a block within another": (
        changed(("segments", 0, "blocks", 1), address=4100),
        "segment 0, block 1: begins at 4100, before 5120: outside its segment, or in another",
    ),
    "a block smaller than asked for": (
        changed(BLOCK, requested_size=1025),
        "segment 0, block 0: 1025 bytes were asked for, and it has 1024",
    ),
    "a block's size": (changed(BLOCK, size=-2), "segment 0, block 0: size is no size"),
}


@pytest.mark.parametrize("how", ["4", "json"])
@pytest.mark.parametrize(("value", "text"), BAD.values(), ids=[*BAD])
def test_what_is_no_snapshot_is_one_line(value, text, how, tmp_path):
    path = written(tmp_path, value, how)
    with pytest.raises(SnapshotError) as refused:
        read_snapshot(path)
    assert text in str(refused.value)
    assert str(refused.value).endswith(f"({path})")
    assert "\n" not in str(refused.value)


def test_a_value_that_holds_itself_is_refused(tmp_path):
    events = [{"action": "alloc"}]
    events[0]["addr"] = events
    with pytest.raises(SnapshotError, match="addr is no size or address: a list of 1"):
        read_snapshot(written(tmp_path, {"device_traces": [events]}, "4"))


def test_what_is_too_much_is_refused_before_any_of_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "MAX_EVENTS", 10_000)
    monkeypatch.setattr(snapshots._Reader, "_event", None)
    monkeypatch.setattr(snapshots._Reader, "_block", None)
    many = {"device_traces": [[ALLOC] * 1000 for _ in range(11)]}
    blocks = {"segments": [SEGMENT | {"blocks": [{}] * 1000} for _ in range(11)]}
    for value in (many, blocks):
        with pytest.raises(SnapshotError, match="more than 10,000 events, segments and blocks"):
            read_snapshot(written(tmp_path, value, "4"))


def test_what_is_shared_a_thousand_times_is_not_read_a_thousand_times(tmp_path):
    events, blocks = [ALLOC] * 1000, [{"size": 0, "state": "inactive"}]
    path = written(tmp_path, {"device_traces": [events] * 1000}, "4")
    with pytest.raises(
        SnapshotError, match=r"device_traces\[1\]: the same list as device_traces\[0"
    ):
        read_snapshot(path)
    path = written(tmp_path, {"segments": [SEGMENT | {"blocks": blocks} for _ in range(2)]}, "4")
    with pytest.raises(SnapshotError, match="segment 1, blocks: the same list as segment 0, block"):
        read_snapshot(path)
    empty = []
    path = written(tmp_path, VALUE | {"device_traces": [empty, empty, [ALLOC]]}, "4")
    assert [device.device for device in read_snapshot(path).devices] == [1, 2]


def test_sizes_that_no_count_of_bytes_holds_are_refused(tmp_path):
    events = [ALLOC | {"addr": at, "size": 1 << 60} for at in range(9)]
    with pytest.raises(
        SnapshotError, match="event 4 of device 0: all sizes up to size add up to m"
    ):
        read_snapshot(written(tmp_path, {"device_traces": [events]}, "4"))


def test_damaged_json_and_missing_files(tmp_path):
    path = tmp_path / "cut.json"
    path.write_text('{"segments": [],\n "device_traces": [')
    with pytest.raises(SnapshotError, match=r"neither a pickle nor JSON: .*cut\.json:2\)"):
        read_snapshot(str(path))
    with pytest.raises(InputError, match="no such file"):
        read_snapshot(str(tmp_path / "missing"))


def test_a_size_is_told_as_it_was_given(tmp_path):
    value = changed(EVENT, size=10**25)
    with pytest.raises(SnapshotError, match="size is absurdly large: 10000000000000000000000000 "):
        read_snapshot(written(tmp_path, value, "json"))


def test_a_key_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "twice.json"
    path.write_text(json.dumps(VALUE).replace('"size": 1000,', '"size": 1000, "size": 1000,', 1))
    with pytest.raises(SnapshotError, match='"size" stands twice in one object'):
        read_snapshot(str(path))


def test_actions_of_a_later_version_are_kept(tmp_path):
    path = written(tmp_path, {"device_traces": [[{"action": "defragment"}]]}, "4")
    (event,) = read_snapshot(path).devices[0].events
    assert (event.action, event.address, event.size_bytes) == ("defragment", None, 0)
