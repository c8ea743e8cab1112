"""Every input that cannot be used: one line, exit status 2, nothing written."""

import gzip
import json
import os
import zipfile

import pytest

from dtrdiag.simulator import native

CONSTANT = '{"INSTRUCTION":"CONSTANT","NAME":"x"}'
X_MEMORY = '{"INSTRUCTION":"MEMORY","NAME":"x","MEMORY":"64"}'
CALL = '{"INSTRUCTION":"CALL","NAME":"f","ARGS":["x"],"RESULT":["y"],"TIME":"5"}'
Y_MEMORY = '{"INSTRUCTION":"MEMORY","NAME":"y","MEMORY":"64"}'
Y_ALIAS = '{"INSTRUCTION":"ALIAS","NAME":"y","ALIAS":"-1"}'

DAMAGED = {
    "not JSON": (["{", X_MEMORY], "not JSON", 1),
    "not an object": (["[1]"], "not a JSON object", 1),
    "an unknown instruction": (['{"INSTRUCTION":"FROB"}'], "unknown instruction 'FROB'", 1),
    "an undefined argument": (
        [CALL.replace('"x"', '"gone"'), Y_MEMORY, Y_ALIAS],
        "'gone' is used but was never defined",
        None,
    ),
    "a negative size": ([CONSTANT, X_MEMORY.replace("64", "-64")], "negative", 2),
    "an absurd size": ([CONSTANT, X_MEMORY.replace("64", "9" * 30)], "absurdly large", 2),
    "a size that is no number": ([CONSTANT, X_MEMORY.replace("64", "6x")], "not an integer", 2),
    "a MEMORY of another result": (
        [CONSTANT, X_MEMORY, CALL, X_MEMORY, Y_ALIAS],
        "MEMORY names 'x' instead of 'y'",
        4,
    ),
    "an alias out of range": (
        [CONSTANT, X_MEMORY, CALL, Y_MEMORY, Y_ALIAS.replace("-1", "1")],
        "ALIAS 1 of 'y' out of range",
        5,
    ),
    "a call without its lines": ([CONSTANT, X_MEMORY, CALL], "the log ends before", None),
}


@pytest.mark.parametrize(("lines", "why", "number"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_trace_names_file_and_line(refuses, here, lines, why, number):
    (here / "bad.log").write_text("\n".join(lines) + "\n")
    for arguments in (["run"], ["sweep", "--ratios", "0.5"], ["traces", "info"]):
        line = refuses(*arguments, "bad.log", *(["-o", "out.jsonl"] * (arguments == ["run"])))
        assert why in line
        assert line.endswith(f"(bad.log:{number})" if number else ")")
        assert "(bad.log:" in line


def test_a_trace_cut_in_a_line(refuses, here, chain_lines):
    content = b"\n".join(chain_lines)
    (here / "cut.log").write_bytes(content[: len(content) // 2])
    line = refuses("run", "cut.log", "-o", "out.jsonl")
    assert "ends in the middle of a line" in line


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file(refuses, here, content):
    (here / "empty.log").write_bytes(content)
    assert refuses("run", "empty.log") == "the file is empty (empty.log)"
    assert "(empty.log" in refuses("replay", "empty.log")


def test_bytes_that_are_no_text(refuses, here):
    (here / "bytes.log").write_bytes(bytes(range(256)))
    assert "(bytes.log:" in refuses("run", "bytes.log")


def test_a_bomb(refuses, here):
    (here / "bomb.log.gz").write_bytes(gzip.compress(b"\n" * (32 << 20)))
    assert "decompresses to more than" in refuses("run", "bomb.log.gz")


@pytest.mark.parametrize("name", ["cut.log.gz", "cut.log.zst"])
def test_a_compressed_file_that_is_cut(refuses, here, chain_lines, name):
    import zstandard

    content = b"\n".join(chain_lines)
    pack = gzip.compress if name.endswith(".gz") else zstandard.ZstdCompressor().compress
    (here / name).write_bytes(pack(content)[:500])
    assert "cannot decompress" in refuses("run", name)


@pytest.mark.parametrize("name", ["bad.log.gz", "bad.log.zst"])
def test_a_compressed_file_that_is_damaged(refuses, here, chain_lines, name):
    import zstandard

    content = b"\n".join(chain_lines)
    pack = gzip.compress if name.endswith(".gz") else zstandard.ZstdCompressor().compress
    packed = bytearray(pack(content))
    packed[12] ^= 0xFF
    packed[30] ^= 0xFF
    (here / name).write_bytes(packed)
    for verb in (["run"], ["oom", "-b", "5"], ["graph"], ["sweep", "--ratios", "0.5"]):
        assert "cannot decompress" in refuses(*verb[:1], name, *verb[1:])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_what_is_no_regular_file(refuses, here):
    os.mkfifo(here / "pipe")
    (here / "kept").mkdir()
    os.mkfifo(here / "kept" / "request.json")
    os.mkfifo(here / "pipe.py")
    for path in ("./pipe", os.devnull):
        for verb in ("run", "oom", "replay", "graph"):
            assert refuses(verb, path) == f"not a regular file ({path})"
        assert "not a regular file" in refuses("traces", "fetch", "--from", path)
    assert "not a regular file" in refuses("run", "chain-64", "--policy-file", "pipe.py")
    sweep = ["sweep", "chain-64", "--ratios", "0.5"]
    assert "not a regular file" in refuses(*sweep, "-o", "kept")


OUTPUTS = [
    ["run", "chain-64", "-o", "pipe"],
    ["run", "chain-64", "-o", "pipe.parquet"],
    ["oom", "recurrent-16", "-r", "0.55", "--dot", "pipe"],
    ["oom", "recurrent-16", "-r", "0.55", "--graphml", "pipe"],
    ["chains", "chain-64", "-r", "0.5", "--csv", "pipe"],
    ["chains", "chain-64", "-r", "0.5", "--dot", "pipe"],
    ["graph", "chain-64", "-o", "pipe.dot"],
    ["map", "chain-64", "--from", "0.5", "--to", "0.5", "-o", "pipe.parquet"],
    ["ablate", "chain-64", "--from", "0.5", "--to", "0.5", "-p", "dtr", "--csv", "pipe"],
]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
@pytest.mark.parametrize("ask", OUTPUTS, ids=lambda ask: f"{ask[0]} {ask[-2]} {ask[-1]}")
def test_a_pipe_that_nobody_reads_is_no_output(refuses, here, ask):
    os.mkfifo(here / ask[-1])
    for more in ([], ["--force"]):
        assert refuses(*ask, *more) == f"is not a plain file ({ask[-1]})"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_pipe_is_no_folder(refuses, here):
    os.mkfifo(here / "pipe")
    for ask in (
        ["sweep", "chain-64", "--ratios", "0.5"],
        ["ablate", "chain-64", "--from", "0.5", "--to", "0.5", "-p", "dtr"],
        ["reproduce", "--quick"],
        ["quickstart"],
    ):
        assert "(pipe" in refuses(*ask, "-o", "pipe")


@pytest.mark.parametrize("ask", [["replay"], ["verify", "--trace", "chain-64"]])
def test_a_trace_is_no_log(refuses, ask):
    line = refuses(*ask, "chain-64")
    assert line == "chain-64 is a trace; write a log of it: dtrdiag run chain-64 -o LOG.jsonl"


@pytest.mark.parametrize("verb", [["oom"], ["graph"], ["diff", "x.jsonl.zst"]])
def test_a_log_is_told_by_its_first_line_however_long(answers, fails, here, verb):
    import zstandard

    lines = fails.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "toy_note": "x" * 200_000})
    text = "\n".join(lines).encode() + b"\n"
    (here / "x.jsonl").write_bytes(text)
    (here / "x.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(text))
    assert answers(*verb, "x.jsonl").out
    assert answers(*verb, "x.jsonl.zst").out


def test_a_directory(refuses, here):
    (here / "folder").mkdir()
    for verb in ("run", "oom", "replay", "graph"):
        assert "is a directory" in refuses(verb, "./folder")


def test_a_file_that_is_not_there(refuses):
    for verb in ("run", "oom", "replay", "graph"):
        assert "no such file" in refuses(verb, "gone.log")


def test_members_of_an_archive(refuses, here):
    with zipfile.ZipFile(here / "a.zip", "w") as bundle:
        bundle.writestr("logs/one.log", b"")
        bundle.writestr("logs/two.log", b"")
    assert 'no member "three"; there are one.log, two.log' in refuses("run", "a.zip::three")
    assert "matches 2 members" in refuses("run", "a.zip::logs")
    assert "name a member of it, as a.zip::PART" in refuses("run", "a.zip")
    assert "no such file" in refuses("run", "gone.zip::one")
    (here / "b.zip").write_bytes(b"PK not really")
    assert "not a zip archive" in refuses("run", "b.zip::one")


def test_an_unknown_trace_suggests_names(refuses):
    assert "did you mean recurrent-16" in refuses("run", "recurent-16")


def test_a_public_trace_that_is_not_here_says_how_to_get_it(refuses):
    assert "dtrdiag traces fetch" in refuses("run", "resnet32")


@pytest.mark.parametrize("budget", ["0", "0.1", "-5", "nan", "lots", "1.5XB", "9" * 40])
def test_budgets(refuses, budget):
    assert refuses("run", "chain-64", "-b", budget, "-o", "x.jsonl").startswith("a budget must be")
    assert refuses("oom", "chain-64", "-b", budget).startswith("a budget must be")
    assert refuses("sweep", "chain-64", "--budgets", budget).startswith("a budget must be")


@pytest.mark.parametrize("ratio", ["0", "-1", "nan", "inf", "x", ""])
def test_ratios(refuses, ratio):
    assert refuses("run", "chain-64", "-r", ratio, "-o", "x.jsonl").startswith("a ratio must be")
    assert refuses("diff", "chain-64", "-r", "0.5", "-r", ratio).startswith("a ratio must be")


def test_a_ratio_that_gives_no_byte(refuses):
    assert "less than 1 byte" in refuses("run", "chain-64", "-r", "1e-300")


@pytest.mark.parametrize("verb", ["run", "oom", "graph"])
def test_options_that_exclude_each_other(refuses, verb):
    assert "not both" in refuses(verb, "chain-64", "-r", "0.5", "-b", "1GiB")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-p", "dtr-eqq"], 'no policy "dtr-eqq"; did you mean dtr-eq?'),
        (["--dealloc", "never"], 'no dealloc "never"; there are eager, ignore, banish'),
        (["--overhead-limit", "0.5"], "an overhead limit must be a number >= 1 or none"),
        (["--overhead-limit", "nan"], "an overhead limit must be a number >= 1 or none"),
        (["--engine", "fast"], 'no engine "fast"; there are auto, native, python'),
        (["--seed", "-1"], "a seed must be in [0, 2**63), not -1"),
    ],
)
@pytest.mark.parametrize("verb", [["run"], ["oom"], ["graph"], ["sweep", "--ratios", "0.5"]])
def test_rules(refuses, verb, options, why):
    assert why in refuses(*verb, "chain-64", *options)


@pytest.mark.parametrize("option", ["--semantics", "--dealloc", "--engine"])
@pytest.mark.parametrize("verb", [["run"], ["oom"], ["sweep", "--ratios", "0.5"]])
def test_an_empty_text_is_no_choice(refuses, verb, option):
    assert f'no {option[2:]} ""; there are ' in refuses(*verb, "chain-64", option, "")


@pytest.mark.parametrize(
    "verb",
    [
        ["ablate", "chain-64", "-p", "dtr", "--from", "0.08", "--to", "0.1"],
        ["sweep", "chain-64", "--ratios", "0.5"],
        ["sweep", "--resume"],
        ["reproduce", "--quick"],
        ["quickstart"],
    ],
)
def test_an_empty_text_is_no_folder(refuses, verb):
    assert refuses(*verb, "-o", "") == "a folder must have a name"


@pytest.mark.parametrize("verb", [["run"], ["oom"], ["graph"], ["sweep", "--ratios", "0.5"]])
def test_the_native_engine_where_it_is_not_built(refuses, monkeypatch, verb):
    monkeypatch.setattr(native, "_native", None)
    line = refuses(*verb, "chain-64", "--engine", "native")
    assert line == "the native engine is not built in this installation"


def test_candidates(refuses):
    assert "add -o LOG" in refuses("run", "chain-64", "--candidates", 3)
    line = refuses("run", "chain-64", "--candidates", -1, "-o", "x.jsonl")
    assert line == "--candidates must not be negative, not -1"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("gone/x.jsonl", "the folder does not exist"),
        (".", "is a directory, not a file"),
        ("gone/x.parquet", "the folder does not exist"),
        ("x.parquet.gz", "a Parquet log is compressed inside: name it .parquet"),
    ],
)
def test_logs_that_cannot_be_written(refuses, path, why):
    assert why in refuses("run", "chain-64", "-o", path)


def test_an_event_log_is_no_trace_and_a_trace_no_event_log(refuses, here, small, chain_lines):
    assert "an event log (of a run), not a trace" in refuses("run", small)
    (here / "chain.log").write_bytes(b"\n".join(chain_lines) + b"\n")
    assert "a DTR log (a trace), not an event log" in refuses("replay", "chain.log")


@pytest.mark.parametrize("verb", ["oom", "graph"])
def test_run_options_do_not_apply_to_a_saved_log(refuses, fails, verb):
    for option in (["-r", "0.5"], ["-p", "dtr"], ["--seed", "1"], ["--dealloc", "eager"]):
        assert "does not apply to a saved log" in refuses(verb, fails, *option)


def _rewritten(small, here, **fields):
    lines = small.read_text().splitlines()
    lines[0] = json.dumps(json.loads(lines[0]) | fields)
    (here / "x.jsonl").write_text("\n".join(lines) + "\n")
    return "x.jsonl"


@pytest.mark.parametrize("verb", ["oom", "graph", "replay"])
@pytest.mark.parametrize("schema", ["dtrdiag.log/9.0", "dtrdiag.log/0.1", "else/1.0", "?"])
def test_logs_of_another_version(refuses, small, here, verb, schema):
    assert "(x.jsonl:1)" in refuses(verb, _rewritten(small, here, schema=schema))


def test_a_log_with_a_damaged_line_names_it(refuses, small, here):
    lines = small.read_text().splitlines()
    lines[40] = "{" + lines[40]
    (here / "x.jsonl").write_text("\n".join(lines) + "\n")
    for verb in (["graph"], ["replay"], ["oom"]):
        assert "(x.jsonl:41)" in refuses(*verb, "x.jsonl")
