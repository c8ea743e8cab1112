"""What went wrong in a worker of a program, whose error comes as a text with a traceback in it?

PyTorch passes errors of loaders' processes and of replicas on so: the type is kept, and the message
names the place and has the whole traceback.
"""

from __future__ import annotations

import re

import attrs

_HEAD = re.compile(r"Caught (\w+) (.+)\.\nOriginal Traceback \(most recent call last\):\n")
_FRAME = re.compile(r'^ +File "(.+)", line (\d+), in ', re.MULTILINE)


@attrs.frozen
class WorkerError:
    """An error of a worker.

    Attributes:
        kind: name of its type.
        said: its message, in one line.
        where: such as `in DataLoader worker process 0`.
        frames: file and line of what was being called, outermost first.
    """

    kind: str
    said: str
    where: str
    frames: tuple[tuple[str, int], ...]


def worker_error(error: BaseException) -> WorkerError | None:
    """What an error says that was passed on from a worker; None: it was not."""
    text = str(error)
    head = _HEAD.match(text)
    if head is None:
        return None
    kind, where = head.groups()
    frames = tuple((file, int(line)) for file, line in _FRAME.findall(text))
    # The last line that begins with the type: the message may have lines of its own.
    ends = list(re.finditer(rf"^(?:[\w.]+\.)?{kind}(?:: |$)", text, re.MULTILINE))
    said = text[ends[-1].end() :] if ends else ""
    return WorkerError(kind, " ".join(said.split()), where, frames)
