"""How are results kept as they come, whatever else the process is doing?

A thread of its own saves what has come every `SAVE_SECONDS`, so that results do not wait for a long
run to end.
"""

from __future__ import annotations

import threading
from types import TracebackType

from dtrdiag.errors import DtrdiagError
from dtrdiag.experiments.outcomes import Outcome
from dtrdiag.experiments.resultsfolder import ResultsFolder
from dtrdiag.experiments.rows import Definition, key_of

SAVE_SECONDS = 0.5
"""A result is on the disk this long after it came, and the time of one write."""


class Saver:
    """Saves outcomes to a folder while a context lasts, and what is left at its end.

    Args:
        folder: where to; it has begun.
    """

    def __init__(self, folder: ResultsFolder) -> None:
        self._folder = folder
        self._waiting: dict[str, tuple[Definition, list[Outcome]]] = {}
        self._lock = threading.Lock()  # of `_waiting`
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._problem: DtrdiagError | None = None
        self._thread = threading.Thread(target=self._run, name="dtrdiag-saver", daemon=True)

    def add(self, definition: Definition, outcome: Outcome) -> None:
        """Take an outcome, to be saved soon.

        Raises:
            OutputError: what came before could not be saved.
        """
        if self._problem is not None:
            raise self._problem
        with self._lock:
            self._waiting.setdefault(key_of(definition), (definition, []))[1].append(outcome)

    def save(self) -> None:
        """Save what has come.

        Raises:
            OutputError: it cannot be written.
        """
        with self._writing:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            for definition, outcomes in waiting.values():
                self._folder.add(definition, outcomes)

    def __enter__(self) -> Saver:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._problem is None:
            self.save()
        elif error is not self._problem:
            raise self._problem

    def _run(self) -> None:
        while not self._over.wait(SAVE_SECONDS):
            try:
                self.save()
            except DtrdiagError as error:
                self._problem = error
                return
