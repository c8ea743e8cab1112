import platform

from dtrdiag import __version__
from dtrdiag.cli import doctor as doctor_verb
from dtrdiag.simulator import native


def test_json(answers):
    found = answers("doctor", "--json").json
    assert found["schema"] == "dtrdiag.doctor/1"
    assert (found["version"], found["python"]) == (__version__, platform.python_version())
    here = native.available()
    assert found["engine"] == ("native" if here else "python")
    assert found["engines"] == {"python": True, "native": here}
    assert (found["native_missing"] is None) == here
    assert found["packages"]["typer"]
    assert found["extras"]["test"] in (True, False)
    assert "recurrent-16" in found["traces"]["available"]
    assert "resnet32" in found["traces"]["missing"]


def test_people_get_a_table(answers):
    out = answers("doctor").out
    assert out.startswith("Everything that dtrdiag needs is here.")
    assert __version__ in out


def test_what_is_missing_is_named(answers, monkeypatch):
    monkeypatch.setattr(doctor_verb, "_version", lambda name: None if name == "rich" else "1")
    monkeypatch.setattr("shutil.which", lambda name: None)
    out = answers("doctor").out
    assert out.startswith("These packages are missing: rich.")
    assert "install graphviz" in out


def test_what_only_an_older_python_needs_is_not_missing(monkeypatch):
    lines = ["rich>=13", 'tomli>=2; python_version < "3.11"', "x; extra == 'test'"]
    monkeypatch.setattr(doctor_verb.metadata, "requires", lambda name: lines)
    monkeypatch.setattr("sys.version_info", (3, 11, 2))
    assert doctor_verb._requirements() == (["rich"], {"test": ["x"]})
    monkeypatch.setattr("sys.version_info", (3, 10, 9))
    assert doctor_verb._requirements() == (["rich", "tomli"], {"test": ["x"]})


def test_without_the_native_engine_it_says_why_and_how_to_get_it(answers, monkeypatch):
    monkeypatch.setattr(native, "_native", None)
    monkeypatch.setattr(native, "_failure", ModuleNotFoundError("no _native"))
    out = " ".join(answers("doctor").out.split())
    assert "not built: dtrdiag was installed without a C++ compiler" in out
    assert "DTRDIAG_NATIVE=1" in out
    monkeypatch.setattr(native, "_failure", ImportError("undefined symbol: x"))
    found = answers("doctor", "--json").json
    assert found["native_missing"] == "built, but it cannot be loaded: undefined symbol: x"


def test_with_the_native_engine_it_says_so(answers, native_engine):
    assert "native, compiled" in answers("doctor").out
