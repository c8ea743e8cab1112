"""Is what a log holds read whole, and is whatever is wrong with it said?"""

import gzip
import io
import itertools
import zlib
from pathlib import Path

import orjson
import pytest
import zstandard

from dtrdiag.errors import InputError, LogError, LogTooNewError, LogTooOldError
from dtrdiag.events import End, RunHeader
from dtrdiag.instrumentation import JsonlWriter
from dtrdiag.log import open_log, read_events
from dtrdiag.log import reader as reader_module

FOREIGN = Path(__file__).resolve().parents[1] / "data" / "foreign-runtime.jsonl"
TEXT = FOREIGN.read_bytes()
LINES = TEXT.splitlines(keepends=True)
EVENTS = read_events(FOREIGN)


def log_file(tmp_path, content, name="run.jsonl"):
    path = tmp_path / name
    path.write_bytes(content)
    return path


def zst(content):
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


def blockwise_gzip(content, size):
    """As a writer does that hands each block to the disk."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    parts = []
    for start in range(0, len(content), size):
        parts += [packer.compress(content[start : start + size]), packer.flush(zlib.Z_SYNC_FLUSH)]
    return b"".join([*parts, packer.flush()])


def blockwise_zst(content, size):
    packer = zstandard.ZstdCompressor().compressobj()
    parts = []
    for start in range(0, len(content), size):
        parts.append(packer.compress(content[start : start + size]))
        parts.append(packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    return b"".join([*parts, packer.flush()])


def test_a_foreign_log_is_read_as_often_as_asked():
    log = open_log(FOREIGN)
    assert isinstance(log.header, RunHeader)
    assert log.header.runtime == "toy-runtime"
    assert log.header.extra == {"device": "toy:0"}
    for _ in range(2):
        events = list(log)
        assert [event.seq for event in events] == list(range(len(LINES)))
        assert events[0] == log.header
        assert isinstance(events[-1], End)
        assert (log.complete, log.problem, log.passed_over) == (True, None, 0)


def test_a_log_is_not_called_complete_before_it_was_read():
    log = open_log(FOREIGN)
    assert (log.complete, log.problem) == (False, None)
    list(log)
    next(iter(log))
    assert (log.complete, log.problem) == (False, None)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("run.jsonl.gz", gzip.compress(TEXT, mtime=0)),
        ("run.jsonl.gz", gzip.compress(TEXT[:3000], mtime=0) + gzip.compress(TEXT[3000:])),
        ("run.jsonl.zst", zst(TEXT)),
        ("run.jsonl.zst", zst(TEXT[:3000]) + zst(TEXT[3000:])),
        ("run.log", TEXT.replace(b"\n", b"\r\n")),
    ],
)
def test_a_log_reads_the_same_in_every_wrapping(tmp_path, name, content):
    log = open_log(log_file(tmp_path, content, name))
    assert list(log) == EVENTS
    assert log.complete


def test_a_log_cut_at_any_byte_reads_up_to_the_cut(tmp_path):
    lines = [*LINES[:9], LINES[-1]]
    text, events = b"".join(lines), [*EVENTS[:9], EVENTS[-1]]
    ends = list(itertools.accumulate(len(line) for line in lines))
    for cut in range(len(text)):
        path = log_file(tmp_path, text[:cut])
        # The newline alone may be missing: the object before it is whole.
        whole = sum(end <= cut + 1 for end in ends)
        if whole == 0:
            with pytest.raises(LogError, match=r"cut in the run header|an empty file"):
                open_log(path)
            continue
        log = open_log(path)
        assert list(log) == events[:whole]
        assert log.complete == (whole == len(events))
        if not log.complete:
            inside = cut > ends[whole - 1]
            problem = log.problem or ""
            assert problem.startswith("cut in" if inside else "ends after")
            assert f"line {whole + inside}, " in problem
            assert f"seq {whole - 1}" in problem


@pytest.mark.parametrize(
    ("name", "pack"), [("run.jsonl.gz", blockwise_gzip), ("run.jsonl.zst", blockwise_zst)]
)
def test_a_compressed_log_cut_anywhere_reads_up_to_the_cut(tmp_path, name, pack):
    content = pack(TEXT, 500)
    counts: list[int] = []
    for cut in range(0, len(content), 3):
        path = log_file(tmp_path, content[:cut], name)
        if not counts and not header_is_whole(path):
            continue
        log = open_log(path)
        events = list(log)
        assert events == EVENTS[: len(events)]
        assert log.complete == (len(events) == len(EVENTS))
        assert log.complete or "seq" in (log.problem or "")
        counts.append(len(events))
    # More of the file never gives fewer events, and most of the file gives most of them.
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert counts[len(counts) * 9 // 10] > len(EVENTS) // 2


def header_is_whole(path):
    try:
        open_log(path)
    except LogError as error:
        return not str(error).startswith(("cut in the run header", "cut before", "an empty file"))
    return True


def refused(path):
    with pytest.raises(LogError) as caught:
        list(open_log(path))
    return caught.value


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (5, b"garbage\n", "not JSON"),
        (5, b"\n", "not JSON"),
        (5, b"\xff\xfe\n", "not JSON"),
        (5, b"[]\n", "an event must be a JSON object"),
        (5, b"{}\n", "an object without the field 'event'"),
        (5, b'{"event": "telemetry", "seq": 4}\n', "unknown kind of event 'telemetry'"),
        (5, b'{"event": "lock", "seq": 4}\n', "lock: field 'cause_seq' is missing"),
        (5, b'{"event": "evict"\n', "not JSON"),
        (40, b"garbage\n", "not JSON"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path, number, line, message):
    path = log_file(tmp_path, b"".join([*LINES[: number - 1], line, *LINES[number:]]))
    error = refused(path)
    assert str(error).startswith(message)
    assert error.where == f"{path}:{number}"


@pytest.mark.parametrize("tail", [b"\n", LINES[-1], LINES[3], b"{", b"garbage"])
def test_nothing_may_follow_the_end_event(tmp_path, tail):
    path = log_file(tmp_path, TEXT + tail)
    error = refused(path)
    assert error.what == "something follows the end event"
    assert error.where == f"{path}:{len(LINES) + 1}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "an empty file, not an event log"),
        (b"\xef\xbb\xbf" + TEXT, "the text begins with a byte-order mark"),
        (TEXT.decode().encode("utf-16"), "the text is in UTF-16, and UTF-8 is what is read"),
        (b"PK\x03\x04\x00\n\n", "not an event log: line 1 is not JSON"),
        (b'{"INSTRUCTION": "ANNOTATE"}\n', r"a DTR log \(a trace\), not an event log"),
        (LINES[1], "begins with a 'op' event, not with 'run'"),
        (b'{"event": "run"}\n', "run: field 'schema' must be"),
        (LINES[0][:50], "cut in the run header"),
    ],
)
def test_what_does_not_begin_like_a_log_is_refused_at_once(tmp_path, content, message):
    with pytest.raises(LogError, match=message):
        open_log(log_file(tmp_path, content))


def test_a_path_without_a_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        open_log(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="is a directory"):
        open_log(tmp_path)


@pytest.mark.parametrize(
    ("version", "error"), [(b"log/2.0", LogTooNewError), (b"log/0.4", LogTooOldError)]
)
def test_another_major_version_is_refused_with_its_place(tmp_path, version, error):
    path = log_file(tmp_path, TEXT.replace(b"log/1.0", version))
    with pytest.raises(error) as caught:
        open_log(path)
    assert caught.value.where == f"{path}:1"


def newer_log(unknown_seq):
    """A log of a newer minor version, with an event of a new kind in line 6."""
    lines = [orjson.loads(line) for line in LINES]
    lines[0]["schema"] = "dtrdiag.log/1.7"
    new = {"event": "telemetry", "seq": unknown_seq, "watts": 300}
    for fields in lines[5:]:
        fields["seq"] += 1
    return b"".join(orjson.dumps(x) + b"\n" for x in [*lines[:5], new, *lines[5:]])


def test_unknown_kinds_of_a_newer_minor_version_are_passed_over(tmp_path):
    log = open_log(log_file(tmp_path, newer_log(5)))
    events = list(log)
    assert len(events) == len(EVENTS)
    assert [event.seq for event in events][4:6] == [4, 6]
    assert (log.complete, log.passed_over) == (True, 1)


@pytest.mark.parametrize("seq", [4, 6, "5", None])
def test_the_seq_of_an_event_that_is_passed_over_is_checked(tmp_path, seq):
    path = log_file(tmp_path, newer_log(seq))
    error = refused(path)
    assert "'telemetry': field 'seq' must be 5" in str(error)
    assert error.where == f"{path}:6"


@pytest.mark.parametrize("name", ["run.jsonl.gz", "run.jsonl.zst"])
def test_a_compressed_file_that_is_none_is_refused(tmp_path, name):
    with pytest.raises(LogError, match="cannot be read further"):
        open_log(log_file(tmp_path, TEXT, name))


def test_a_flipped_bit_in_a_compressed_log_is_not_taken_for_a_cut(tmp_path):
    content = bytearray(gzip.compress(TEXT))
    content[-6] ^= 1
    with pytest.raises(LogError, match="cannot be read further"):
        read_events(log_file(tmp_path, bytes(content), "run.jsonl.gz"))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_module, "MAX_LINE_BYTES", 4096)
    monkeypatch.setattr(reader_module, "_CHUNK", 1024)
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(gzip.compress(LINES[0] + b"x" * 50_000_000))
    asked = []
    read = reader_module._read

    def counting(path, stream_read):
        chunk = read(path, stream_read)
        asked.append(len(chunk))
        return chunk

    monkeypatch.setattr(reader_module, "_read", counting)
    error = refused(path)
    assert error.where == f"{path}:2"
    assert sum(asked) < 20_000


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_where_chunks_end_does_not_matter(monkeypatch, chunk):
    monkeypatch.setattr(reader_module, "_CHUNK", chunk)
    assert read_events(FOREIGN) == EVENTS


def test_reading_and_writing_a_log_gives_its_bytes_again(tmp_path):
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    for source, target in [(FOREIGN, first), (first, second)]:
        with JsonlWriter(target) as writer:
            for event in open_log(source):
                writer(event)
    assert second.read_bytes() == first.read_bytes()
    kept = io.BytesIO(first.read_bytes()).readline()
    assert orjson.loads(kept)["device"] == "toy:0"
