"""The pictures of the README are what a command draws from bundled traces, and are light."""

import importlib.util
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"


def loaded():
    """The command that draws them, as a module."""
    spec = importlib.util.spec_from_file_location("picture_maker", FOLDER / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


maker = loaded()
SHOWN = re.findall(r"!\[[^]]+\]\(docs/pictures/([^)]+)\)", (ROOT / "README.md").read_text())


def test_the_readme_shows_every_picture_that_is_made():
    assert sorted(SHOWN) == sorted(maker.PICTURES)
    assert sorted(path.name for path in FOLDER.glob("*.svg")) == sorted(maker.PICTURES)


@pytest.mark.parametrize("name", sorted(maker.PICTURES))
def test_a_picture_is_what_the_command_draws(name):
    kept = (FOLDER / name).read_bytes()
    assert maker.same_picture(kept, maker.PICTURES[name]())
    assert len(kept) < 200_000


def test_another_picture_is_not_the_same():
    one, other = ((FOLDER / name).read_bytes() for name in ("memory.svg", "budgets.svg"))
    assert not maker.same_picture(one, other)
    assert not maker.same_picture(one, one.replace(b"#56b4e9", b"#000000"))
    assert maker.same_picture(one, one + b"\n")


def test_check_tells_which_picture_has_changed(tmp_path, monkeypatch, capsys):
    for name in maker.PICTURES:
        shutil.copy(FOLDER / name, tmp_path)
    monkeypatch.setattr(maker, "FOLDER", tmp_path)
    monkeypatch.setattr(maker, "PICTURES", {"pair.svg": (FOLDER / "pair.svg").read_bytes})
    assert maker.main(["--check"]) == 0
    (tmp_path / "pair.svg").unlink()
    assert maker.main(["--check"]) == 1
    assert "pair.svg is not what this command draws" in capsys.readouterr().err
    assert maker.main([]) == 0
    assert maker.main(["--check"]) == 0
    assert maker.main(["--what"]) == 2
