import doctest

import pytest

from dtrdiag import suggestions
from dtrdiag.suggestions import close_files, close_names, no_such, one_of

POLICIES = ["dtr", "dtr-eq", "dtr-local", "lru", "none+size"]


def test_what_the_docstrings_show():
    assert doctest.testmod(suggestions).failed == 0


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("dtr-eqq", "did you mean dtr-eq?"),
        ("DTR-EQ", "did you mean dtr-eq?"),
        ("size", "did you mean none+size?"),
        ("zzz", "there are dtr, dtr-eq, dtr-local, lru, none+size"),
        ("", "there are dtr, dtr-eq, dtr-local, lru, none+size"),
    ],
)
def test_close_names_are_suggested_and_otherwise_all_are_listed(given, hint):
    assert no_such("policy", given, POLICIES) == f'no policy "{given}"; {hint}'


def test_names_that_are_about_as_close_are_all_suggested():
    assert close_names("chain-65", ["chain-64", "chain-63", "chair", "lstm"]) == [
        "chain-64",
        "chain-63",
    ]


def test_there_may_be_one_name_or_none():
    assert no_such("claim", "x", ["only-one"]) == 'no claim "x"; there is only-one alone'
    assert no_such("claim", "x", []) == 'no claim "x"; there is none'
    assert no_such("option", "-z", ["--at"], "") == 'no option "-z"'
    assert no_such("policy", "zzz", POLICIES, "write one") == 'no policy "zzz"; write one'
    assert one_of(["a", "b"]) == "a or b"


def test_what_is_given_may_be_long_or_no_text():
    assert len(no_such("policy", "x" * 10_000, POLICIES)) < 200
    assert no_such("kind", 7, ["a", "b"]) == "no kind 7; there are a, b"


def test_a_misspelt_file_is_found_in_its_folder(tmp_path):
    (tmp_path / "fails.jsonl").write_text("")
    assert close_files(str(tmp_path / "fials.jsonl")) == [str(tmp_path / "fails.jsonl")]
    assert close_files(str(tmp_path / "zzz")) == []
    assert close_files(str(tmp_path / "nowhere" / "fails.jsonl")) == []
