import platform

from dtrdiag import __version__
from dtrdiag.cli import doctor as doctor_verb


def test_json(answers):
    found = answers("doctor", "--json").json
    assert found["schema"] == "dtrdiag.doctor/1"
    assert (found["version"], found["python"]) == (__version__, platform.python_version())
    assert (found["engine"], found["engines"]["native"]) == ("python", False)
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
