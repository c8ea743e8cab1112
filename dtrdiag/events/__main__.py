"""Print the JSON Schema of events, or with `tables` the field tables of `docs/events.md`."""

from __future__ import annotations

import json
import sys

from dtrdiag.events.jsonschema import json_schema, markdown_tables


def main(arguments: list[str]) -> int:
    """Write one of the two to standard output; 2 for other arguments."""
    if arguments == ["tables"]:
        for kind, table in markdown_tables().items():
            sys.stdout.write(f"### `{kind}`\n\n{table}\n\n")
        return 0
    if arguments:
        sys.stderr.write("usage: python -m dtrdiag.events [tables]\n")
        return 2
    sys.stdout.write(json.dumps(json_schema(), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
