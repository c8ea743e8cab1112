"""What tests share: where the public traces are, if this machine has them."""

import os
from pathlib import Path

import pytest

ARCHIVE_NAME = "dtr-logs.zip"


@pytest.fixture(scope="session")
def traces_archive() -> Path:
    """The archive of public DTR logs, which is not part of the repository.

    ``DTRDIAG_TRACES`` names the archive or its folder. Without that variable the test is skipped;
    a variable that names nothing is an error, so that a mistake does not pass for a green run.
    """
    named = os.environ.get("DTRDIAG_TRACES")
    if not named:
        pytest.skip("no public traces: run `dtrdiag traces fetch`, or set DTRDIAG_TRACES")
    path = Path(named)
    archive = path / ARCHIVE_NAME if path.is_dir() else path
    if not archive.is_file():
        pytest.fail(f"DTRDIAG_TRACES={named}: there is no {ARCHIVE_NAME}")
    return archive
