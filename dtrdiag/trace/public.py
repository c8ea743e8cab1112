"""The eight traces published with simrd: what they are, and where this machine has them.

They belong to their authors and are not part of dtrdiag. They are looked for where the environment
variable DTRDIAG_TRACES points (a folder that holds the archive or the extracted logs, or the
archive itself), then in the cache that `fetch` fills.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from dtrdiag.caching import cache_dir
from dtrdiag.errors import MissingTraceError
from dtrdiag.files import ARCHIVE_SEPARATOR
from dtrdiag.trace.bundled import check_digest
from dtrdiag.trace.dtrlog import read_dtr_log
from dtrdiag.trace.model import Trace

TRACES_VARIABLE = "DTRDIAG_TRACES"

ARCHIVE_URL = (
    "https://raw.githubusercontent.com/uwsampl/dtr-prototype/"
    "eff53cc4804cc7d6246a6e5086861ce2b846f62b/simrd/logs.zip"
)
"""The archive in simrd's public repository, at its last commit."""
ARCHIVE_SHA256 = "63579a07a6e7ce063f5ba49450dfb96a9f3995df736c423c27e1336f4365e02a"
ARCHIVE_NAME = "dtr-logs.zip"
"""Name of the archive in the cache."""
ARCHIVE_NAMES = (ARCHIVE_NAME, "logs.zip")
"""Names under which a folder may hold the archive; the second is its published one."""
FOLDER = "logs"
"""Folder of the members in the archive."""


@attrs.frozen(slots=True)
class PublicTrace:
    """A published trace."""

    name: str
    file: str
    """File name of the DTR log."""
    description: str
    sha256: str
    """SHA-256 of the uncompressed bytes."""
    ops: int
    tensors: int

    @property
    def member(self) -> str:
        """Path in the archive."""
        return f"{FOLDER}/{self.file}"

    def locate(self) -> str | None:
        """A source for `read_dtr_log`, or None; the bytes are not looked at."""
        return next(_sources(self), None)

    def load(self) -> Trace:
        """The trace, if it is here and its digest is the known one.

        Raises:
            MissingTraceError: it is not on this machine; the text says how to get it.
            InputError: what was found is unreadable or something else.
        """
        source = self.locate()
        if source is None:
            places = " and ".join(_places())
            raise MissingTraceError(
                f"public trace {self.name!r} is not on this machine (looked in {places}); "
                "get it with: dtrdiag traces fetch"
            )
        trace = read_dtr_log(source, name=self.name)
        check_digest(trace, self.sha256)
        return trace


def _sources(trace: PublicTrace) -> Iterator[str]:
    named = os.environ.get(TRACES_VARIABLE)
    if named:
        place = Path(named).expanduser()
        if place.is_file():
            yield f"{place}{ARCHIVE_SEPARATOR}{trace.member}"
        for archive in ARCHIVE_NAMES:
            if (place / archive).is_file():
                yield f"{place / archive}{ARCHIVE_SEPARATOR}{trace.member}"
        for log in (place / trace.member, place / trace.file):
            if log.is_file():
                yield str(log)
    cached = cache_dir() / ARCHIVE_NAME
    if cached.is_file():
        yield f"{cached}{ARCHIVE_SEPARATOR}{trace.member}"


def _places() -> Iterator[str]:
    named = os.environ.get(TRACES_VARIABLE)
    yield f"{TRACES_VARIABLE}={named}" if named else f"{TRACES_VARIABLE}, which is not set,"
    yield str(cache_dir())


PUBLIC_TRACES = {
    trace.name: trace
    for trace in (
        PublicTrace(
            "tv_densenet121",
            "tv_densenet121-84-10000000000.0-2020-10-1-13-41-18-default.log",
            "DenseNet-121, batch 84, 224 x 224 images",
            "4d9e8bd06f6b76c894dfbef4743f714177665dee9e883aa245c2770fe48e45de",
            2925,
            3652,
        ),
        PublicTrace(
            "inceptionv4",
            "inceptionv4-64-10000000000.0-2020-10-1-10-55-0-default.log",
            "Inception v4, batch 64, 299 x 299 images",
            "439a2b9a7a080faabfbc2c751d66d2838664882e3b603196d1c2f41ac64ee9df",
            2307,
            3206,
        ),
        PublicTrace(
            "resnet32",
            "resnet32-56-9000000000.0-2020-10-1-13-3-30-default.log",
            "ResNet-32, batch 56, 224 x 224 images",
            "38c94cada99aca654ad9589d99eabc2267a51835593b598085f9f8221a7bacaf",
            509,
            696,
        ),
        PublicTrace(
            "transformer",
            "transformer-10-8000000000.0-2020-10-1-10-56-5-default.log",
            "Transformer, batch 10, 512 x 512",
            "cdcac0e9f4af95ccf30cacb28f9edcc2f194c31653946f9ddde424f926fcb7d1",
            3154,
            3457,
        ),
        PublicTrace(
            "unet",
            "unet-6-8000000000.0-2020-10-1-10-57-18-default.log",
            "U-Net, batch 6, 416 x 608 images",
            "cf985d2ca964c89988e931ee1978302deb22ffb17bc518da0f39344b66d23476",
            399,
            512,
        ),
        PublicTrace(
            "treelstm",
            "treelstm-6-8000000000.0-2020-10-1-12-54-1-default.log",
            "TreeLSTM, complete binary tree of depth 6, nodes of 640",
            "4ec05ef5a1bd81a0c47a4eb13fa708e015333c2568c26f8cdfa1e8c9f2de5902",
            6959,
            7213,
        ),
        PublicTrace(
            "lstm",
            "lstm-128-11000000000.0-2020-10-1-16-38-52-default.log",
            "LSTM, batch 512, input 512, hidden 1700, 128 time steps",
            "f17c569c87bcd1368cc1d1eb0ad79cc75ac8eea0985755c6cd437d7faff2a31f",
            8063,
            8319,
        ),
        PublicTrace(
            "unroll_gan",
            "unroll_gan-512-10000000000.0-2020-10-1-18-43-42-default.log",
            "GAN with 10 unrolled steps, 512 x 512",
            "0947d26a48e6677b6d437b1415245aa7bb1c638207e8420e4a1e52a094137120",
            6820,
            6820,
        ),
    )
}
"""The published traces by short name."""
