import os
import stat

import pytest

from dtrdiag.cli import output
from dtrdiag.cli.output import check_outputs, write_file, write_files
from dtrdiag.errors import OutputError


def test_a_file_is_written_with_ordinary_permissions(here):
    write_file("a.txt", b"whole")
    mask = os.umask(0)
    os.umask(mask)
    assert (here / "a.txt").read_bytes() == b"whole"
    assert stat.S_IMODE((here / "a.txt").stat().st_mode) == 0o666 & ~mask


def test_permissions_of_a_file_that_is_replaced_stay(here):
    (here / "a.txt").write_bytes(b"old")
    (here / "a.txt").chmod(0o600)
    write_file("a.txt", b"new")
    assert (here / "a.txt").read_bytes() == b"new"
    assert stat.S_IMODE((here / "a.txt").stat().st_mode) == 0o600


def test_a_failure_leaves_what_was_there(here, monkeypatch):
    (here / "a.txt").write_bytes(b"old")

    def fail(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        write_file("a.txt", b"new")
    assert [path.name for path in here.iterdir()] == ["a.txt"]
    assert (here / "a.txt").read_bytes() == b"old"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_device_is_written_in_place(here):
    write_file(os.devnull, b"gone")
    assert not os.path.isfile(os.devnull)


def test_outputs_are_checked(here):
    (here / "a").write_text("")
    (here / "folder").mkdir()
    check_outputs(["b", None, "folder/c"], force=False)
    check_outputs(["a"], force=True)
    for paths, force, why in [
        (["b", "a"], False, "exists already"),
        (["folder"], True, "is a directory"),
        (["gone/b"], True, "the folder does not exist"),
        (["b", "./b"], True, "is named for two results"),
    ]:
        with pytest.raises(OutputError, match=why):
            check_outputs(paths, force)


def test_files_that_belong_together_are_all_written_or_none(here, monkeypatch):
    (here / "a.txt").write_bytes(b"old")

    def fail(target, temporary):
        if target.name == "b.txt":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(output, "_copy_mode", fail)
    with pytest.raises(OutputError, match=r"No space left on device \(b.txt\)"):
        write_files({"a.txt": b"new", "b.txt": b"new"})
    assert [path.name for path in here.iterdir()] == ["a.txt"]
    assert (here / "a.txt").read_bytes() == b"old"
