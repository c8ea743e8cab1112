"""Lets ``python -m dtrdiag`` do what the ``dtrdiag`` command does."""

import sys

from dtrdiag.cli import main

if __name__ == "__main__":
    sys.exit(main())
