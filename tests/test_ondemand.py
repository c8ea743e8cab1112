"""Packages offer all their names, and load the modules behind them when they are asked for."""

import importlib
import subprocess
import sys

import pytest

PACKAGES = ["dtrdiag.analyses", "dtrdiag.experiments", "dtrdiag.instrumentation"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_that_is_listed_is_there(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        assert value.__module__.startswith(package + ".")
        assert module.__dict__[name] is value


@pytest.mark.parametrize("package", PACKAGES)
def test_another_name_is_refused_as_by_any_module(package):
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = importlib.import_module(package).nothing


def test_a_verb_about_saved_logs_does_not_wait_for_what_it_has_no_use_for():
    asked = "import sys, dtrdiag.cli.app, dtrdiag.cli.diff; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "dtrdiag.analyses.diff" in loaded
    assert not loaded & {"networkx", "structlog", "graphviz", "pyarrow", "pooch", "altair"}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_listed_before_it_is_used_and_none_is_loaded_by_that(package):
    asked = (
        f"import sys, {package} as p; before = set(sys.modules); listed = dir(p);"
        "missing = {*p.__all__, *vars(p)} - set(listed);"
        "print(missing, set(sys.modules) - before, listed == sorted(set(listed)))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["set()", "set()", "True"]
