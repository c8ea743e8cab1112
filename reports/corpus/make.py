"""Which steps of PyTorch models are bundled? Records each again, into the package or to compare.

    python reports/corpus/make.py [NAME ...]           record into dtrdiag/trace/bundled
    python reports/corpus/make.py --check [NAME ...]   compare with what is there, byte for byte

Takes PyTorch and one to five minutes. The logs name the version of PyTorch that they are from: with
another one they differ, in that name at least.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

import zstandard

from dtrdiag.cli import main as dtrdiag
from dtrdiag.instrumentation.pytorch.logsink import recording_of
from dtrdiag.trace import parse_dtr_log

PACKAGE = Path(__file__).resolve().parents[2] / "dtrdiag" / "trace" / "bundled"
INDEX = PACKAGE / "bundled.json"

RECORDED = {
    "resnet-32-224": ("resnet-32", "ResNet-32, batch 56 of 3 x 224 x 224, as in the DTR paper"),
    "resnet-20": ("resnet-20", "ResNet-20, batch 128 of CIFAR-10's 3 x 32 x 32"),
    "lstm-128": ("lstm", "LSTM classifier of 128 time steps, 512 hidden units, batch 128"),
    "treelstm-64": ("treelstm", "TreeLSTM on 128 sentences of 64 words, 512 hidden units"),
    "unet-256": ("unet", "U-Net, batch 8 of 3 x 256 x 256"),
    "encoder-6": ("transformer", "Transformer encoder of 6 layers, 32 x 256 tokens, with dropout"),
    "gpt2": ("gpt2", "GPT-2 small, 8 x 1024 tokens, attention in one operator"),
    "gpt2-eager": ("gpt2 --set attention=eager", "The same with all scores of attention kept"),
    "gpt2-dropout": ("gpt2 --set dropout=0.1", "GPT-2 small with dropout, 8 x 1024 tokens"),
    "gpt2-adam": ("gpt2 --optimizer adam", "GPT-2 small and the step of Adam that follows"),
    "gpt2-xl": ("gpt2-xl", "GPT-2 XL, 48 layers of width 1600, 1 x 1024 tokens"),
    "moe-8": ("moe", "Mixture of 8 experts, 2 for each token, in a language model; 8 x 512 tokens"),
    "diffusion-32": ("diffusion", "Denoising U-Net with attention, batch 32 of 3 x 32 x 32"),
    "mamba-128": ("mamba", "Selective state-space model, 8 x 128 tokens, its scan unrolled"),
}
"""By name of the trace: the model of the zoo with options of `dtrdiag record`, and what it is."""


def command_of(name: str) -> str:
    """What records it."""
    model, _, options = RECORDED[name][0].partition(" ")
    words = f"dtrdiag record zoo:{model} --fake {options} --name {name} -o {name}.log.zst"
    return " ".join(words.split())


def make(name: str) -> bytes:
    """Record a step into the current folder; the log as it was packed."""
    with contextlib.redirect_stdout(io.StringIO()):
        status = dtrdiag(shlex.split(command_of(name))[1:])
    if status:
        sys.exit(f"{name} was not recorded")
    return Path(f"{name}.log.zst").read_bytes()


def entry_of(name: str, packed: bytes) -> dict[str, Any]:
    """What the index says of a log."""
    trace = parse_dtr_log(zstandard.ZstdDecompressor().decompress(packed), name=name)
    recording = recording_of(trace.preamble) or {}
    return {
        "name": name,
        "kind": "recorded",
        "file": f"{name}.log.zst",
        "description": RECORDED[name][1],
        "sha256": trace.sha256,
        "ops": trace.ops,
        "tensors": trace.tensors,
        "command": command_of(name),
        "torch": recording["torch"],
        "sizes": recording["sizes"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the recorded traces; all")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    options = parser.parse_args()
    names = options.names or list(RECORDED)
    entries = {entry["name"]: entry for entry in json.loads(INDEX.read_bytes())}
    differing = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            packed = make(name)
            entry = entry_of(name, packed)
            if options.check:
                same = entry == entries.get(name)
                differing += [] if same else [name]
                print(f"{name}: {'the same bytes' if same else 'DIFFERENT'}", file=sys.stderr)
            else:
                (PACKAGE / entry["file"]).write_bytes(packed)
                entries[name] = entry
                print(f"{name}: {entry['ops']} ops, {len(packed)} bytes", file=sys.stderr)
    if options.check:
        return 1 if differing else 0
    generated = [entry for entry in entries.values() if entry["kind"] == "generated"]
    ordered = [*generated, *(entries[name] for name in RECORDED if name in entries)]
    INDEX.write_text(json.dumps(ordered, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
