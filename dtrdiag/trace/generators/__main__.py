"""Writes a generated trace to a file: `python -m dtrdiag.trace.generators NAME ... -o FILE`."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

from dtrdiag.errors import DtrdiagError, OutputError
from dtrdiag.trace.dtrlog import write_dtr_log
from dtrdiag.trace.generators.registry import GENERATORS, generate


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate one trace; the exit status is 0, or 2 after one line that says what is wrong."""
    options = _parser().parse_args(arguments)
    try:
        trace = generate(
            options.name, depth=options.depth, width=options.width, batch=options.batch
        )
        _write(options.output, write_dtr_log(trace), force=options.force)
    except DtrdiagError as error:
        sys.stderr.write(f"dtrdiag: error: {error}\n")
        return error.exit_status
    return 0


def _parser() -> argparse.ArgumentParser:
    lines = [f"  {entry.name:<16}{entry.description}" for entry in GENERATORS.values()]
    parser = argparse.ArgumentParser(
        prog="python -m dtrdiag.trace.generators",
        description="Write the DTR log of one training step of a generated network.",
        epilog="\n".join(["generators:", *lines]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="a generator, see below")
    for parameter in ("depth", "width", "batch"):
        parser.add_argument(f"--{parameter}", type=int, required=True)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="compressed if *.gz"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE")
    return parser


def _write(path: Path, content: bytes, *, force: bool) -> None:
    if path.suffix == ".gz":
        # No time and no name in the header: the same trace gives the same file.
        content = gzip.compress(content, mtime=0)
    try:
        with path.open("wb" if force else "xb") as stream:
            stream.write(content)
    except FileExistsError:
        raise OutputError("exists already; --force replaces it", path=path) from None
    except OSError as error:
        raise OutputError(f"cannot be written: {error.strerror}", path=path) from error


if __name__ == "__main__":
    sys.exit(main())
