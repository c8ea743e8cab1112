import os
import stat

import pytest

from dtrdiag.cli import output
from dtrdiag.cli.output import check_outputs, print_sentences, write_file, write_files
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


LONG = "/a/path/that/is/longer-than/the-line/of/a/narrow/terminal/run.jsonl"


def test_sentences_are_wrapped_where_a_width_is_known_and_paths_stay_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = "  dtrdiag sweep recurrent-16 -p dtr -p dtr-eq --ratios 0.4:0.9:0.05"
    sentence = f"The log of the run that was asked for is now in {LONG} to be read."
    print_sentences(["", sentence, command])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ""
    assert lines[-1] == command
    assert LONG in lines
    assert " ".join(lines[1:-1]) == sentence
    assert all(len(line) <= 40 for line in lines[1:-1] if line != LONG)


def test_piped_sentences_are_lines_where_no_width_is_known(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    print_sentences(["many words " * 60 + "."])
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("how", ["itself", "link", "hard link", "another way"])
def test_what_is_read_is_not_written_over(dtrdiag, answers, here, how):
    answers("run", "chain-64", "-r", "0.3", "-o", "log.jsonl")
    before = (here / "log.jsonl").read_bytes()
    target = here / "p.csv"
    if how == "itself":
        (here / "log.jsonl").rename(target)
    elif how == "link":
        target.symlink_to("log.jsonl")
    elif how == "hard link":
        target.hardlink_to(here / "log.jsonl")
    else:
        (here / "log.jsonl").rename(target)
        target = here / "sub" / ".." / "p.csv"
        (here / "sub").mkdir()
    read = "p.csv" if how in ("itself", "another way") else "log.jsonl"
    found = dtrdiag("export", read, "--to", "csv", "-o", target, "--force")
    assert found.status == 2
    assert "is what is read, and is not written over" in found.one_line()
    assert (here / read).read_bytes() == before


def test_no_verb_writes_over_the_log_that_it_reads(dtrdiag, answers, here):
    answers("run", "chain-64", "-r", "0.3", "-o", "log.jsonl")
    before = (here / "log.jsonl").read_bytes()
    (here / "page.html").symlink_to("log.jsonl")
    for asked in (
        ("whatif", "log.jsonl", "--tie-break", "last", "-o", "log.jsonl", "--replace"),
        ("report", "log.jsonl", "-o", "page.html", "--force"),
        ("export", "log.jsonl", "--to", "jsonl", "-o", "log.jsonl", "--force"),
    ):
        found = dtrdiag(*asked)
        assert found.status == 2, asked
        assert "is what is read" in found.one_line()
        assert (here / "log.jsonl").read_bytes() == before
