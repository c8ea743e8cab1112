"""A name, a file or an archive member stands for one trace, and is never taken for another."""

import gzip
import hashlib
import shutil
import threading
import zipfile
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import attrs
import pooch
import pytest
from requests.exceptions import ConnectionError, HTTPError  # pooch needs requests

from dtrdiag.caching import cache_dir
from dtrdiag.errors import InputError, OutputError, UsageError
from dtrdiag.trace.bundled import bundled_traces
from dtrdiag.trace.catalog import fetch, known_traces, resolve
from dtrdiag.trace.public import ARCHIVE_SHA256, ARCHIVE_URL, PUBLIC_TRACES

LOG = b'{"INSTRUCTION":"CONSTANT","NAME":"x"}\n{"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x"}\n'
OTHER = LOG.replace(b'"8"', b'"9"')
MEMBER = PUBLIC_TRACES["resnet32"].member


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without telling of each."""

    def log_message(self, format, *arguments):
        pass


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """No test sees this machine's traces or cache."""
    monkeypatch.delenv("DTRDIAG_TRACES", raising=False)
    monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A small archive that passes for the published one, with one member."""
    path = tmp_path / "published" / "logs.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr(MEMBER, LOG)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr("dtrdiag.trace.fetching.ARCHIVE_SHA256", digest)
    record = attrs.evolve(PUBLIC_TRACES["resnet32"], sha256=hashlib.sha256(LOG).hexdigest())
    monkeypatch.setitem(PUBLIC_TRACES, "resnet32", record)
    return path


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the network was used")

    monkeypatch.setattr(pooch, "HTTPDownloader", lambda: refuse)


class TestResolve:
    def test_a_file_is_read_under_its_own_name(self, tmp_path):
        path = tmp_path / "mine.log.gz"
        path.write_bytes(gzip.compress(LOG))
        assert resolve(path).name == resolve(str(path)).name == "mine"

    def test_a_member_of_an_archive_is_read(self, archive):
        assert resolve(f"{archive}::resnet32").ops == 1

    def test_a_name_wins_over_a_file_which_is_reached_by_its_path(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("chain-64").write_bytes(LOG)
        assert resolve("chain-64").ops == 129
        assert resolve("./chain-64").ops == 1

    def test_a_file_without_suffix_in_the_current_folder_is_read(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("recorded").write_bytes(LOG)
        assert resolve("recorded").ops == 1

    @pytest.mark.parametrize(
        ("name", "close"),
        [
            ("resnet-32", "resnet32"),
            ("chain64", "chain-64"),
            ("LSTM", "lstm"),
            ("tree_4", "tree-4"),
        ],
    )
    def test_an_unknown_name_is_refused_with_the_closest(self, name, close):
        with pytest.raises(UsageError) as raised:
            resolve(name)
        text = str(raised.value)
        assert text.startswith(f'no trace or file "{name}"; did you')
        assert close in text

    def test_a_name_that_is_close_to_none_is_refused_with_all(self):
        with pytest.raises(UsageError, match=r"there are chain-64, .*, unroll_gan$"):
            resolve("zzz")

    @pytest.mark.parametrize("name", ["", "\0", "a" * 5000, "two\nlines"])
    def test_an_odd_name_is_refused_in_one_short_line(self, name):
        with pytest.raises(UsageError) as raised:
            resolve(name)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400

    @pytest.mark.parametrize("path", ["none.log", "none/trace", "none.log.gz", "none.zip::x"])
    def test_a_path_to_nothing_is_refused_as_a_file(self, path):
        with pytest.raises(InputError, match="no such file"):
            resolve(path)

    def test_a_directory_is_refused(self, tmp_path):
        with pytest.raises(InputError):
            resolve(tmp_path)


class TestPublic:
    def test_one_that_is_not_here_is_refused_with_the_command_that_gets_it(self, tmp_path):
        with pytest.raises(UsageError) as raised:
            resolve("lstm")
        text = str(raised.value)
        assert text.startswith("public trace 'lstm' is not on this machine")
        assert text.endswith("get it with: dtrdiag traces fetch")
        assert str(tmp_path / "cache") in text

    def test_a_place_that_has_none_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DTRDIAG_TRACES", str(tmp_path / "wrong"))
        with pytest.raises(UsageError, match=r"DTRDIAG_TRACES=.*wrong"):
            resolve("lstm")

    @pytest.mark.parametrize(
        "layout", ["archive", "folder", "folder of the original name", "extracted", "flat"]
    )
    def test_it_is_found_where_the_variable_points(self, tmp_path, monkeypatch, archive, layout):
        place = tmp_path / "place"
        place.mkdir()
        if layout == "archive":
            place = archive
        elif layout == "folder":
            shutil.copy(archive, place / "dtr-logs.zip")
        elif layout == "folder of the original name":
            shutil.copy(archive, place)
        else:
            log = place / (MEMBER if layout == "extracted" else Path(MEMBER).name)
            log.parent.mkdir(exist_ok=True)
            log.write_bytes(LOG)
        monkeypatch.setenv("DTRDIAG_TRACES", str(place))
        trace = resolve("resnet32")
        assert (trace.name, trace.ops) == ("resnet32", 1)
        (record,) = [record for record in known_traces() if record.name == "resnet32"]
        assert record.available
        assert record.where == trace.path

    def test_the_variable_comes_before_the_cache(self, tmp_path, monkeypatch, archive):
        fetch(archive)
        assert str(tmp_path / "cache") in resolve("resnet32").path
        monkeypatch.setenv("DTRDIAG_TRACES", str(archive))
        assert resolve("resnet32").path.startswith(str(archive))

    def test_the_cache_serves_what_the_variable_does_not_have(self, tmp_path, monkeypatch, archive):
        fetch(archive)
        monkeypatch.setenv("DTRDIAG_TRACES", str(tmp_path))
        assert str(tmp_path / "cache") in resolve("resnet32").path

    def test_another_log_under_its_name_is_refused_with_both_digests(self, tmp_path, monkeypatch):
        (tmp_path / Path(MEMBER).name).write_bytes(OTHER)
        monkeypatch.setenv("DTRDIAG_TRACES", str(tmp_path))
        with pytest.raises(InputError, match="not the known trace 'resnet32'") as raised:
            resolve("resnet32")
        assert hashlib.sha256(OTHER).hexdigest() in str(raised.value)
        assert PUBLIC_TRACES["resnet32"].sha256 in str(raised.value)

    def test_an_archive_that_is_damaged_is_refused(self, tmp_path, monkeypatch):
        (tmp_path / "dtr-logs.zip").write_bytes(b"not a zip")
        monkeypatch.setenv("DTRDIAG_TRACES", str(tmp_path))
        with pytest.raises(InputError, match="not a zip archive"):
            resolve("resnet32")


def test_known_traces_are_the_bundled_and_the_eight_public_ones():
    records = known_traces()
    assert len({record.name for record in records}) == len(records)
    assert [record.name for record in records if record.kind == "bundled"] == list(bundled_traces())
    public = [record for record in records if record.kind == "public"]
    assert {record.name for record in public} == {
        "tv_densenet121",
        "inceptionv4",
        "resnet32",
        "transformer",
        "unet",
        "treelstm",
        "lstm",
        "unroll_gan",
    }
    assert not any(record.available or record.where for record in public)
    assert all(record.available and Path(record.where or "").is_file() for record in records[:-8])
    for record in records:
        assert len(record.sha256) == 64
        assert record.description
        assert record.ops > 0
        assert record.tensors >= record.ops


class TestFetch:
    def test_a_local_archive_is_put_into_the_cache(self, tmp_path, archive):
        path = fetch(archive)
        assert path == tmp_path / "cache" / "dtr-logs.zip"
        assert path.read_bytes() == archive.read_bytes()
        assert resolve("resnet32").ops == 1

    def test_the_cache_serves_again_without_source_or_network(self, archive, no_network):
        path = fetch(str(archive))
        archive.unlink()
        assert fetch() == fetch(archive) == path

    def test_a_url_is_downloaded(self, archive):
        with HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(archive.parent))) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                path = fetch(f"http://127.0.0.1:{server.server_port}/logs.zip")
            finally:
                server.shutdown()
                thread.join()
        assert path.read_bytes() == archive.read_bytes()

    def test_by_default_it_comes_from_where_it_is_published(self, archive, monkeypatch):
        asked = []

        def download(url, output, pooch):
            asked.append(url)
            shutil.copy(archive, output)

        monkeypatch.setattr(pooch, "HTTPDownloader", lambda: download)
        fetch()
        assert asked == [ARCHIVE_URL]
        assert ARCHIVE_URL.startswith("https://")

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (HTTPError("404 Client Error: Not Found"), "404 Client Error: Not Found"),
            (ConnectionError("Max retries exceeded\n" * 50), "ConnectionError"),
        ],
    )
    def test_a_download_that_fails_is_one_line(self, tmp_path, monkeypatch, error, text):
        def fail(url, output, pooch):
            Path(output).write_bytes(b"half")
            raise error

        monkeypatch.setattr(pooch, "HTTPDownloader", lambda: fail)
        with pytest.raises(InputError) as raised:
            fetch("https://example.org/x.zip")
        assert str(raised.value) == (
            f"cannot get the public traces: {text}; --from FILE takes a copy, and DTRDIAG_TRACES "
            "may name one (https://example.org/x.zip)"
        )
        assert list((tmp_path / "cache").iterdir()) == []

    @pytest.mark.parametrize("had", [False, True])
    def test_another_file_is_refused_with_both_digests_and_nothing_changes(
        self, tmp_path, archive, had
    ):
        if had:
            fetch(archive)
        wrong = tmp_path / "wrong.zip"
        wrong.write_bytes(b"another archive")
        with pytest.raises(InputError) as raised:
            fetch(wrong, force=True)
        expected = hashlib.sha256(archive.read_bytes()).hexdigest()
        assert str(raised.value) == (
            "not the archive of public traces: SHA-256 "
            f"{hashlib.sha256(b'another archive').hexdigest()}, expected {expected} ({wrong})"
        )
        kept = list((tmp_path / "cache").iterdir())
        assert kept == ([tmp_path / "cache" / "dtr-logs.zip"] if had else [])
        assert not had or kept[0].read_bytes() == archive.read_bytes()

    def test_force_gets_it_again(self, archive):
        path = fetch(archive)
        before = path.stat().st_ino
        assert fetch(archive, force=True) == path
        assert path.stat().st_ino != before

    def test_a_damaged_cache_is_replaced(self, archive):
        path = fetch(archive)
        path.write_bytes(b"damaged")
        assert fetch(archive).read_bytes() == archive.read_bytes()

    def test_a_source_that_is_not_there_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="No such file or directory") as raised:
            fetch(tmp_path / "none.zip")
        assert raised.value.path == str(tmp_path / "none.zip")

    def test_a_directory_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="is a directory, not an archive"):
            fetch(tmp_path)

    def test_a_cache_that_cannot_be_made_is_refused(self, tmp_path, monkeypatch, archive):
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path / "file" / "cache"))
        with pytest.raises(OutputError, match="cannot be written") as raised:
            fetch(archive)
        assert raised.value.path == str(tmp_path / "file" / "cache")

    def test_without_the_variable_the_cache_is_the_users(self, monkeypatch):
        monkeypatch.delenv("DTRDIAG_CACHE")
        assert cache_dir() == Path(pooch.os_cache("dtrdiag"))


def test_the_pinned_digest_is_that_of_the_archive(traces_archive):
    assert hashlib.sha256(traces_archive.read_bytes()).hexdigest() == ARCHIVE_SHA256


@pytest.mark.parametrize("name", PUBLIC_TRACES)
def test_the_record_of_a_public_trace_is_true(traces_archive, monkeypatch, name):
    monkeypatch.setenv("DTRDIAG_TRACES", str(traces_archive))
    trace = resolve(name)
    record = PUBLIC_TRACES[name]
    assert (trace.name, trace.ops, trace.tensors) == (name, record.ops, record.tensors)
