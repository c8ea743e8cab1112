"""Does an installed dtrdiag hold what the repository holds, under one name?"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path, PurePosixPath

import pytest

import dtrdiag
from dtrdiag.simulator import native

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("dtrdiag", "instrumentation", "analyses")
MAPPED = ("instrumentation", "analyses")
SHIPPED_DATA = (
    ("dtrdiag", ("py.typed",)),
    ("dtrdiag/events", (".json",)),
    ("dtrdiag/trace/bundled", (".gz", ".json", ".zst")),
    ("dtrdiag/analyses/claims", (".json", ".toml", ".zst")),
)


def run(*command: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | variables
    )
    if done.returncode:
        said = f"{done.stdout}{done.stderr}"
        pytest.fail(f"{' '.join(command)}: exit status {done.returncode}\n{said}")
    return done


@pytest.fixture(scope="module")
def tracked() -> list[PurePosixPath]:
    """The files of the repository, relative to its root: what a clean checkout would have."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so there is no list of tracked files")
    listed = run("git", "ls-files", "-z", cwd=ROOT).stdout.split("\0")
    return [PurePosixPath(name) for name in listed if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def checkout(tracked: list[PurePosixPath], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy without build products: a stale egg-info would hide what the wheel lacks."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    return folder


def build_wheel(checkout: Path, target: Path, **variables: str) -> Path:
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check")
    pip = (sys.executable, "-m", "pip", "wheel")
    run(*pip, *offline, "--wheel-dir", str(target), ".", cwd=checkout, **variables)
    (wheel,) = target.glob("*.whl")
    return wheel


STUB = """
#include <Python.h>
static PyModuleDef it = {PyModuleDef_HEAD_INIT, "_native", nullptr, 0, nullptr};
PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&it); }
"""
"""Stands for the sources of the engine, which take long to compile: the installation that runs
these tests is built from them, so what is left to see is whether the result gets into wheels.
"""


@pytest.fixture(scope="module")
def wheel_names(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> set[PurePosixPath]:
    """What is in a wheel, with the native engine if this installation could build it."""
    (checkout / "dtrdiag/simulator/csrc/bindings.cpp").write_text(STUB)
    insist = "1" if native.available() else "0"
    wheel = build_wheel(checkout, tmp_path_factory.mktemp("wheel"), DTRDIAG_NATIVE=insist)
    with zipfile.ZipFile(wheel) as archive:
        return {PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")}


def installed_name(name: PurePosixPath) -> PurePosixPath:
    return PurePosixPath("dtrdiag") / name if name.parts[0] in MAPPED else name


def test_the_wheel_holds_every_tracked_module(tracked, wheel_names):
    modules = {installed_name(n) for n in tracked if n.suffix == ".py" and n.parts[0] in PACKAGES}
    assert {PurePosixPath("dtrdiag") / folder / "__init__.py" for folder in MAPPED} <= modules
    assert sorted(modules - wheel_names) == []


def test_the_wheel_holds_the_data_files_beside_the_modules(tracked, wheel_names):
    expected = {
        installed_name(name)
        for name in tracked
        for folder, endings in SHIPPED_DATA
        if str(installed_name(name).parent) == folder and name.name.endswith(endings)
    }
    assert PurePosixPath("dtrdiag/py.typed") in expected
    assert PurePosixPath("dtrdiag/analyses/claims/statuses.json") in expected
    assert sorted(expected - wheel_names) == []


@pytest.mark.usefixtures("native_engine")
def test_the_wheel_holds_the_native_engine_and_none_of_its_sources(wheel_names):
    built = [name for name in wheel_names if name.suffix in (".so", ".pyd")]
    assert [name.name.partition(".")[0] for name in built] == ["_native"]
    assert [str(name.parent) for name in built] == ["dtrdiag/simulator"]
    assert [name for name in wheel_names if name.suffix in (".hpp", ".cpp")] == []


def test_without_the_native_engine_all_else_works(checkout, tmp_path):
    wheel = build_wheel(checkout, tmp_path, DTRDIAG_NATIVE="0")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    command = (sys.executable, "-m", "dtrdiag", "run", "chain-64", "-r", "0.5", "--json")
    here = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(tmp_path / "installed")}}

    def answer(*options: str) -> subprocess.CompletedProcess[str]:
        words = [*command, *options]
        return subprocess.run(words, capture_output=True, text=True, check=False, **here)

    by_itself = answer()
    assert (by_itself.returncode, by_itself.stderr) == (0, "")
    assert json.loads(by_itself.stdout)["engine"] == "python"
    refused = answer("--engine", "native")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "dtrdiag: error: the native engine is not built in this installation\n"
    )


def test_the_wheel_installs_one_top_level_name(wheel_names):
    tops = {name.parts[0] for name in wheel_names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"dtrdiag"}


def test_the_wheel_holds_the_licence(wheel_names):
    assert [name for name in wheel_names if name.name == "LICENSE"] != []


def test_the_source_distribution_holds_the_tests_and_every_module(tracked, checkout, tmp_path):
    # A process of its own, because the backend works in the current folder.
    build = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", build, str(tmp_path), cwd=checkout)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        held = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    kinds = (".py", ".hpp", ".cpp")
    wanted = {n for n in tracked if n.parts[0] == "tests" or n.suffix in kinds}
    assert PurePosixPath("dtrdiag/simulator/csrc/bindings.cpp") in wanted
    wanted |= {PurePosixPath("LICENSE"), PurePosixPath("Makefile"), PurePosixPath("pyproject.toml")}
    assert sorted(wanted - held) == []


@pytest.mark.parametrize("folder", MAPPED)
def test_a_mapped_folder_refuses_to_load_under_its_bare_name(folder):
    code = f"import {folder}"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"ImportError: import dtrdiag.{folder}, not {folder}" in done.stderr


@pytest.mark.parametrize("folder", MAPPED)
def test_a_mapped_folder_loads_as_a_part_of_dtrdiag(folder, tmp_path):
    code = f"import dtrdiag.{folder} as part; print(part.__name__)"
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == f"dtrdiag.{folder}\n"


def test_the_version_is_the_installed_one():
    assert version("dtrdiag") == dtrdiag.__version__
