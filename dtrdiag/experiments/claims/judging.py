"""What does one claim come to when its evidence and its interventions are run?"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs

from dtrdiag.errors import DtrdiagError, LedgerError, MissingTraceError
from dtrdiag.experiments.claims import bounds
from dtrdiag.experiments.claims.bounds import Answer
from dtrdiag.experiments.claims.items import filled
from dtrdiag.experiments.claims.laboratory import Laboratory
from dtrdiag.experiments.claims.predicates import field
from dtrdiag.experiments.claims.records import MOVES, Claim, Item, Reference
from dtrdiag.experiments.claims.registry import Document
from dtrdiag.experiments.claims.statuses import Verdict, status_of
from dtrdiag.instrumentation.pytorch.errors import TorchMissingError

WORDS: Mapping[Answer, str] = {True: "holds", False: "fails", None: "undecided"}


@attrs.frozen
class Judged:
    """What a claim came to.

    Attributes:
        id: of the claim.
        status: None: it was not run, `reason` says why.
        reason: in words.
        missing_trace: it was not run because a public trace is not on this machine.
        missing_torch: it was not run because PyTorch is not, or not the version it is about.
        seconds: how long it took; runs shared with claims before it took none.
        items: what each piece of evidence and each intervention came to, as JSON types.
    """

    id: str
    status: str | None
    reason: str
    missing_trace: bool
    seconds: float
    items: tuple[Document, ...]
    missing_torch: bool = False


def judge(claim: Claim, laboratory: Laboratory) -> Judged:
    """Run a claim.

    Raises:
        LedgerError: it cannot be run as it is written, with its line; or a trace file is missing.
    """
    started = time.perf_counter()
    verdicts, documents = [], []
    for number, item in enumerate(claim.items, start=1):
        try:
            verdict, document = _item(item, number, laboratory)
        except (MissingTraceError, TorchMissingError) as error:
            seconds = time.perf_counter() - started
            torch = isinstance(error, TorchMissingError)
            what = item.error(error).what
            return Judged(claim.id, None, what, not torch, seconds, (), torch)
        verdicts.append(verdict)
        documents.append(document)
    status, reason = status_of(verdicts)
    seconds = time.perf_counter() - started
    return Judged(claim.id, status, reason, False, seconds, tuple(documents))


def _item(item: Item, number: int, laboratory: Laboratory) -> tuple[Verdict, Document]:
    started = time.perf_counter()
    try:
        figures = _Figures(item.references, laboratory)
        parameters = filled(item.parameters, figures.figure)
        document = item.check.function(laboratory, item.check.parsed(parameters))
    except (MissingTraceError, TorchMissingError):
        raise
    except DtrdiagError as error:
        raise item.error(error) from None
    answers, predicates = [], []
    for index, predicate in enumerate(item.expect):
        try:
            answer = predicate.holds(document)
            measured = predicate.measured(document)
        except LedgerError as error:
            raise item.error(error, index) from None
        answers.append(answer)
        predicates.append({"text": predicate.text, "verdict": WORDS[answer], "measured": measured})
    holds = bounds.both(answers)
    vacuous = item.role == MOVES and holds is not False and _without(item, document)
    verdict = Verdict(item.role, False if vacuous else holds, item.title or f"item {number}")
    described = {
        "role": item.role,
        "title": item.title,
        "check": item.check.name,
        "parameters": parameters,
        "references": figures.known,
        "verdict": WORDS[verdict.holds],
        "holds_without": bool(vacuous),
        "predicates": predicates,
        "seconds": time.perf_counter() - started,
    }
    return verdict, described


def _without(item: Item, document: Document) -> bool:
    """Whether everything that is expected of the changed run holds of the unchanged one as well."""
    unchanged = {**document, "changed": document["base"], "same_decisions": True}
    return bounds.both([predicate.holds(unchanged) for predicate in item.expect]) is True


class _Figures:
    """The figures that references of one item stand for, each computed when it is needed."""

    def __init__(self, references: Mapping[str, Reference], laboratory: Laboratory) -> None:
        self._references = references
        self._laboratory = laboratory
        self.known: dict[str, Any] = {}

    def figure(self, name: str) -> int | str:
        """A whole number, or a text.

        Raises:
            LedgerError: there is none, or it is neither a whole number nor a text.
            DtrdiagError: of its check.
        """
        if name not in self.known:
            reference = self._references[name]
            parameters = filled(reference.parameters, self.figure)
            check = reference.check
            document = check.function(self._laboratory, check.parsed(parameters))
            value = field(document, reference.field)
            if isinstance(value, bool) or not isinstance(value, int | str):
                shown = repr(bounds.plain(value))[:60]
                raise LedgerError(f"the reference {name!r} is {shown}, no whole number or text")
            self.known[name] = value
        figure: int | str = self.known[name]
        return figure
