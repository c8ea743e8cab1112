"""Is all that the documentation of the analyses names where it says that it is?"""

import re
from pathlib import Path

import dtrdiag.analyses

DOCUMENT = Path(__file__).parents[2] / "docs" / "analyses.md"


def test_functions_and_records_of_the_table_are_exported():
    rows = [line.split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    (table,) = (at for at, row in enumerate(rows) if row[1].strip() == "question")
    named = set()
    for row in rows[table + 1 :]:
        if len(row) != 6 or not row[1].strip().endswith("?"):
            break
        named |= set(re.findall(r"`([\w.]+)`", row[2] + row[3]))
    assert {"find_effects", "EffectFinding", "summarise"} <= named
    assert named <= set(dtrdiag.analyses.__all__)
