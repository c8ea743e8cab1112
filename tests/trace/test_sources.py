"""Files and archives that cannot be read are refused in one line that names them."""

import gzip
import os
import random
import zipfile
from contextlib import suppress

import pytest
import zstandard

from dtrdiag.errors import InputError
from dtrdiag.trace import read_dtr_log

LOG = b'{"INSTRUCTION":"CONSTANT","NAME":"x"}\n{"INSTRUCTION":"MEMORY","MEMORY":"8","NAME":"x"}\n'
BOMB = b"\0" * (40 << 20)
NOISE = random.Random(0).randbytes(40_000)


def refused(source):
    with pytest.raises(InputError) as raised:
        read_dtr_log(source)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_status == 2
    return raised.value


def put(path, content):
    path.write_bytes(content)
    return str(path)


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "logs.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("logs/", b"")
        bundle.writestr("logs/resnet32-a.log", LOG)
        bundle.writestr("logs/resnet50-b.log", LOG)
        bundle.writestr("logs/lstm.log", LOG)
    return path


def test_a_member_is_found_by_its_path_or_a_part_that_fits_one(archive):
    assert read_dtr_log(f"{archive}::logs/lstm.log").name == "lstm"
    assert read_dtr_log(f"{archive}::resnet32").ops == 1


def test_an_exact_path_wins_over_longer_ones(tmp_path):
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("a.log", LOG)
        bundle.writestr("old/a.log", b"not a log")
    assert read_dtr_log(f"{path}::a.log").ops == 1


def test_a_missing_file_is_refused(tmp_path):
    path = str(tmp_path / "none.log")
    assert str(refused(path)) == f"no such file ({path})"


def test_a_directory_is_refused(tmp_path):
    assert "is a directory" in str(refused(str(tmp_path))) or os.name == "nt"


@pytest.mark.parametrize("name", ["a\0b.log", "a" * 5000])
def test_a_name_that_no_file_can_have_is_refused(name):
    assert refused(name).path == name


def test_an_unreadable_file_is_refused(tmp_path):
    path = put(tmp_path / "secret.log", LOG)
    os.chmod(path, 0)
    if os.access(path, os.R_OK):
        pytest.skip("this user reads every file")
    assert refused(path).what == "cannot be opened: Permission denied"


@pytest.mark.parametrize("content", [b"", LOG[:0]])
def test_an_empty_file_is_refused(tmp_path, content):
    path = put(tmp_path / "empty.log", content)
    assert str(refused(path)) == f"the file is empty ({path})"


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("zst", zstandard.compress)])
class TestCompressed:
    def test_one_that_is_not_is_refused(self, tmp_path, suffix, pack):
        path = put(tmp_path / f"plain.{suffix}", LOG)
        error = refused(path)
        assert error.what.startswith("cannot decompress")
        assert error.path == path

    @pytest.mark.parametrize("keep", [0.3, 0.9, 0.9999])
    def test_one_that_is_cut_is_refused(self, tmp_path, suffix, pack, keep):
        packed = pack(NOISE)
        path = put(tmp_path / f"cut.{suffix}", packed[: int(len(packed) * keep)])
        assert refused(path).what.startswith("cannot decompress")

    def test_one_with_something_after_it_is_refused(self, tmp_path, suffix, pack):
        path = put(tmp_path / f"more.{suffix}", pack(LOG) + b"junk that is no frame")
        assert refused(path).what.startswith("cannot decompress")

    def test_two_in_a_row_are_read_as_one(self, tmp_path, suffix, pack):
        half = len(LOG) // 2
        path = put(tmp_path / f"two.{suffix}", pack(LOG[:half]) + pack(LOG[half:]))
        assert read_dtr_log(path).ops == 1

    def test_a_bomb_is_refused(self, tmp_path, suffix, pack):
        path = put(tmp_path / f"bomb.{suffix}", pack(BOMB))
        assert refused(path).what == "decompresses to more than 200 times its size, refused"

    def test_an_empty_one_is_refused(self, tmp_path, suffix, pack):
        path = put(tmp_path / f"empty.{suffix}", pack(b""))
        assert str(refused(path)) == f"the file is empty ({path})"


def test_a_gzip_whose_checksum_is_wrong_is_refused(tmp_path):
    packed = bytearray(gzip.compress(LOG))
    packed[-8] ^= 0xFF
    path = put(tmp_path / "bad.log.gz", packed)
    assert refused(path).what.startswith("cannot decompress: CRC check failed")


def test_a_bomb_in_an_archive_is_refused(tmp_path):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("x.log", BOMB)
    assert "more than 200 times its size" in str(refused(f"{path}::x.log"))


def test_a_wrong_member_is_refused_with_the_members_there_are(archive):
    error = refused(f"{archive}::vgg")
    assert error.what.startswith('no member "vgg"; there are ')
    assert "resnet32-a.log" in error.what
    assert error.path == str(archive)


def test_an_ambiguous_member_is_refused_with_its_matches(archive):
    error = refused(f"{archive}::resnet")
    assert error.what == "'resnet' matches 2 members: logs/resnet32-a.log, logs/resnet50-b.log"


@pytest.mark.parametrize("part", ["", "logs/"])
def test_no_member_at_all_is_refused(archive, part):
    assert refused(f"{archive}::{part}").path == str(archive)


def test_a_missing_archive_is_refused(tmp_path):
    path = tmp_path / "none.zip"
    assert str(refused(f"{path}::x")) == f"no such file ({path})"


@pytest.mark.parametrize("content", [b"", b"not a zip", LOG])
def test_an_archive_that_is_none_is_refused(tmp_path, content):
    path = put(tmp_path / "bad.zip", content)
    error = refused(f"{path}::x")
    assert error.what.startswith("not a zip archive")
    assert error.path == path


def test_an_archive_that_is_cut_is_refused(archive):
    archive.write_bytes(archive.read_bytes()[:-30])
    assert refused(f"{archive}::lstm").what.startswith("not a zip archive")


def test_a_damaged_member_is_refused(archive):
    content = bytearray(archive.read_bytes())
    start = content.index(b"logs/lstm.log") + len(b"logs/lstm.log")
    content[start + 5] ^= 0xFF
    archive.write_bytes(content)
    error = refused(f"{archive}::lstm")
    assert error.what.startswith("cannot decompress")


def test_a_member_whose_header_is_overwritten_is_refused(tmp_path):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("x.log", LOG)
    path.write_bytes(b"ZZZZ" + path.read_bytes()[4:])
    assert refused(f"{path}::x").what.startswith("member 'x.log' cannot be read")


def test_a_member_in_an_unknown_compression_is_refused(tmp_path):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("x.log", LOG)
    content = bytearray(path.read_bytes())
    content[8] = content[content.rindex(b"PK\x01\x02") + 10] = 99
    path.write_bytes(content)
    assert refused(f"{path}::x").what.startswith("member 'x.log' cannot be read")


def test_an_encrypted_member_is_refused(tmp_path):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("x.log", LOG)
    content = bytearray(path.read_bytes())
    content[6] |= 1
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    assert refused(f"{path}::x").what == "member 'x.log' is encrypted"


def test_a_gzip_whose_content_is_damaged_is_refused(tmp_path):
    packed = bytearray(gzip.compress(NOISE))
    packed[12] ^= 0xFF
    packed[30] ^= 0xFF
    path = put(tmp_path / "bad.log.gz", packed)
    assert refused(path).what.startswith("cannot decompress")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_no_damage_to_a_member_is_more_than_a_refusal(tmp_path, method):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w", method) as bundle:
        bundle.writestr("x.log", LOG * 20)
    whole = path.read_bytes()
    for position in range(30, whole.rindex(b"PK\x01\x02") + 60):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        # Any other error fails the test; some bytes, such as a date, do not matter.
        with suppress(InputError):
            read_dtr_log(f"{path}::x")


def test_an_archive_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "one.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("x.log", LOG)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 6] = 99
    path.write_bytes(content)
    assert refused(f"{path}::x").what.startswith("not a zip archive")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", "::x"])
def test_pipes_and_devices_are_refused_before_they_are_opened(tmp_path, suffix):
    pipe = str(tmp_path / f"pipe{suffix.partition('::')[0]}")
    os.mkfifo(pipe)
    member = suffix if suffix.startswith("::") else ""
    assert refused(pipe + member).what == "not a regular file"
    assert refused(os.devnull).what == "not a regular file"


def test_more_than_fits_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("dtrdiag.files.MAX_BYTES", 1 << 20)
    path = put(tmp_path / "long.log", b"\n" * ((1 << 20) + 1))
    assert refused(path).what == "more than 1 MiB uncompressed"
