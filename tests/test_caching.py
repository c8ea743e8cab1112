"""What is kept to save time is there as a whole or not at all, and nobody depends on it."""

import os
import sys
import types

import pytest

from dtrdiag.caching import cache_dir, keep, kept
from dtrdiag.rendering.pages import page


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DTRDIAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_kept_is_found_again(cache):
    assert kept("a.txt") is None
    keep("a.txt", b"one")
    keep("a.txt", b"two")
    assert kept("a.txt") == b"two"
    assert os.listdir(cache) == ["a.txt"]
    assert cache_dir() == cache


def test_nothing_is_kept_where_nothing_can_be_written(cache):
    cache.write_text("no folder")
    keep("a.txt", b"one")
    assert kept("a.txt") is None
    assert cache.read_text() == "no folder"


def test_nothing_unfinished_stays(cache):
    (cache / "a.txt").mkdir(parents=True)
    keep("a.txt", b"one")
    assert os.listdir(cache) == ["a.txt"]


@pytest.fixture
def maker(monkeypatch):
    """Stands for vl-convert; counts how often it puts the script together."""
    made = []

    def javascript_bundle():
        made.append("script")
        return "window.vegaEmbed = 1;"

    module = types.SimpleNamespace(__version__="1.2.3", javascript_bundle=javascript_bundle)
    monkeypatch.setitem(sys.modules, "vl_convert", module)
    page.bundle.cache_clear()
    yield made
    page.bundle.cache_clear()


def again():
    page.bundle.cache_clear()
    return page.bundle()


def test_the_scripts_of_charts_are_put_together_once(maker):
    assert [again(), again()] == ["window.vegaEmbed = 1;"] * 2
    assert maker == ["script"]


def test_a_damaged_script_is_put_together_anew(maker, cache):
    again()
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes().replace(b"= 1", b"= 2"))
    assert again() == "window.vegaEmbed = 1;"
    assert maker == ["script"] * 2
