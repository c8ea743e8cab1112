"""How does the same picture become the same PDF, byte for byte, each time?

Programs that write PDF put the time of day into it, and number its objects in the order of a hash
table. Neither is seen by whoever looks at it; both make two files of one picture differ.
"""

from __future__ import annotations

import re

_OBJECT = re.compile(rb"\s*\d+ 0 obj\b")
_REFERENCE = re.compile(rb"\b(\d+) 0 R\b")
_NAMED = re.compile(rb"(?<=<<\n)(?: +/\w+ \d+ 0 R\n){2,}")
"""Lines of a dictionary that name other objects and nothing else: their order says nothing."""
_DATE = re.compile(rb"/CreationDate \(D:\d{14}[^)]*\)")
_STREAM = b"\nstream\n"


def same_pdf(data: bytes) -> bytes:
    """The same pages with no date, and with objects in the order in which the pages name them.

    O(n) in the size. What is not laid out as expected (objects inside of compressed streams, say)
    comes back as it is, but for the date.
    """
    undated = _DATE.sub(lambda found: b"/CreationDate (D:19700101000000Z)", data)
    if len(undated) != len(data):
        # Offsets in the table at the end would be wrong.
        undated = data
    found = _objects(undated)
    return undated if found is None else _written(undated[: undated.index(b"\n") + 1], *found)


def _objects(data: bytes) -> tuple[dict[int, bytes], bytes] | None:
    """Each object by its number, without the line that numbers it, and the trailer's dictionary."""
    table = data.rfind(b"\nxref\n")
    trailer = re.search(rb"trailer\s*(<<.*?>>)\s*startxref", data[table:], re.DOTALL)
    if table < 0 or trailer is None:
        return None
    entries = data[table : table + trailer.start()]
    offsets = sorted(int(at) for at in re.findall(rb"^(\d{10}) 00000 n", entries, re.MULTILINE))
    objects = {}
    for start, end in zip(offsets, [*offsets[1:], table + 1], strict=True):
        head = _OBJECT.match(data, start)
        if head is None:
            return None
        number = int(data[start : head.end()].split()[0])
        objects[number] = _NAMED.sub(
            lambda lines: b"".join(sorted(lines[0].splitlines(keepends=True))),
            data[head.end() : end].strip() + b"\n",
        )
    return objects, trailer[1]


def _written(version: bytes, objects: dict[int, bytes], trailer: bytes) -> bytes:
    order = _order(objects, trailer)
    numbers = {old: new for new, old in enumerate(order, start=1)}

    def renumbered(text: bytes) -> bytes:
        return _REFERENCE.sub(lambda old: b"%d 0 R" % numbers.get(int(old[1]), 0), text)

    written, offsets = version, []
    for old in order:
        about, stream, content = objects[old].partition(_STREAM)
        offsets.append(len(written))
        written += b"%d 0 obj\n%b%b%b" % (numbers[old], renumbered(about), stream, content)
    table = len(written)
    size = len(order) + 1
    written += b"xref\n0 %d\n0000000000 65535 f \n" % size
    written += b"".join(b"%010d 00000 n \n" % at for at in offsets)
    about = re.sub(rb"/Size \d+", b"/Size %d" % size, renumbered(trailer))
    return written + b"trailer\n%b\nstartxref\n%d\n%%%%EOF\n" % (about, table)


def _order(objects: dict[int, bytes], trailer: bytes) -> list[int]:
    """Numbers of the objects, each once, in the order in which they are first named."""
    order: dict[int, None] = {}
    waiting = [int(found) for found in reversed(_REFERENCE.findall(trailer))]
    while waiting:
        number = waiting.pop()
        if number in order or number not in objects:
            continue
        order[number] = None
        named = _REFERENCE.findall(objects[number].partition(_STREAM)[0])
        waiting.extend(int(found) for found in reversed(named))
    return list(order)
