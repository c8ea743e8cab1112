"""What is to be recorded or run, by a name on the command line, as a step to take?

A target is `zoo:NAME`, a model of the zoo, or `MODULE:FUNCTION`, a function of a module that is
imported as Python run in the current folder would import it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

import dtrdiag.instrumentation
from dtrdiag.errors import DtrdiagError, UsageError
from dtrdiag.instrumentation.pytorch.errors import (
    ProgramError,
    RecordingError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.returned import (
    current_folder,
    is_function,
    refuse_named,
    refuse_returned,
    watched,
)
from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.pytorch.workers import worker_error
from dtrdiag.suggestions import no_such, quoted

ZOO = "zoo"
_NOT_SET = ("name", "size", "optimizer")
"""Arguments of `make` for which there are options."""


@attrs.frozen
class Target:
    """A target as it was named.

    Attributes:
        text: as given, for messages.
        module: `zoo`, or the module to import.
        function: the model of the zoo, or the function.
    """

    text: str
    module: str
    function: str

    @classmethod
    def parse(cls, text: str) -> Target:
        """Take a name apart.

        Raises:
            UsageError: it is no such name.
        """
        module, _, function = text.partition(":")
        dotted = all(part.isidentifier() for part in (*module.split("."), *function.split(".")))
        if module != ZOO and module.endswith(".py"):
            name = module.removesuffix(".py").replace(os.sep, ".")
            raise UsageError(f"a module is named as in an import: {name}:{function or 'FUNCTION'}")
        if not function or (module != ZOO and not dotted):
            raise UsageError(
                f"{quoted(text)} names nothing to record: zoo:MODEL, or MODULE:FUNCTION"
            )
        return cls(text, module, function)

    @property
    def is_zoo(self) -> bool:
        """Whether it is a model of the zoo."""
        return self.module == ZOO

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse a model that there is not, before anything is made.

        Raises:
            UsageError: no such model, or a setting that is an option of its own.
        """
        if not self.is_zoo:
            return
        from dtrdiag.instrumentation.zoo import MODELS

        if self.function not in MODELS:
            raise UsageError(no_such("model of the zoo", self.function, MODELS))
        for key in settings:
            if key in _NOT_SET:
                raise UsageError(f"--set {key} is not a size of the model")

    def build(self, settings: Mapping[str, Any], size: str, optimizer: str | None) -> Step:
        """The step, made now.

        A function that returns something else than a `Step` is itself the step, which was taken
        once then (`Step.taken`). A function that it returns is the step, too.

        Args:
            settings: arguments by name.
            size: of a model of the zoo, `full` or `small`.
            optimizer: to be made over the model's parameters; None: the step's own, if any.

        Raises:
            ProgramError: what was imported or called raised an error.
            UsageError: there is no such module, function or size; or what was returned, now or by
                the step later, is neither a step nor a result: a model, a generator, a coroutine.
        """
        if self.is_zoo:
            from dtrdiag.instrumentation.zoo import make

            with blamed(self.text):
                return make(self.function, size, optimizer=optimizer, **settings)
        function = self._imported()
        # What it imports when it is called is there as well.
        with current_folder(), blamed(self.text):
            made = function(**settings)
        return self._with_optimizer(self._as_step(made, function, settings), optimizer)

    def _imported(self) -> Callable[..., Any]:
        with current_folder(), blamed(self.text):
            try:
                found: Any = importlib.import_module(self.module)
            except ModuleNotFoundError as error:
                if error.name is None or not f"{self.module}.".startswith(f"{error.name}."):
                    raise
                raise UsageError(f"no module {error.name} in the current folder") from None
        for name in self.function.split("."):
            if not hasattr(found, name):
                raise UsageError(no_such(f"function of {self.module}", name, _public(found)))
            found = getattr(found, name)
        refuse_named(self.text, found)
        called: Callable[..., Any] = found
        return called

    def _as_step(self, made: Any, function: Any, settings: Mapping[str, Any]) -> Step:
        if isinstance(made, Step):
            return attrs.evolve(made, run=watched(self.text, made.run))
        if is_function(made):
            return Step(self.function, None, watched(self.text, made), sizes=dict(settings))
        refuse_returned(self.text, made)
        run = watched(self.text, lambda: function(**settings))
        return Step(self.function, None, run, sizes=dict(settings), taken=1)

    def _with_optimizer(self, step: Step, optimizer: str | None) -> Step:
        if optimizer is None:
            return step
        from dtrdiag.instrumentation.zoo.optimizers import optimizer_over

        if step.optimizer is not None:
            raise UsageError(f"--optimizer {optimizer}: {self.text} brings one of its own")
        if step.model is None:
            raise UsageError(f"--optimizer {optimizer}: {self.text} gives no Step with a model")
        return attrs.evolve(step, optimizer=optimizer_over(step.model, optimizer))


_OUTSIDE = ("Mixing fake modes", "convert all Tensors to FakeTensors first")
"""What PyTorch says where a program brings tensors from outside a mode of fake ones."""


@contextlib.contextmanager
def blamed(text: str) -> Iterator[None]:
    """Whatever the program raises is an error of ours, which names where the program raised it.

    What it prints goes to standard error: standard output has the answer.

    Raises:
        ProgramError: the program raised an error, or ended itself.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        ours = _own(error) or _told_of_fakes(error)
        if ours is error:
            raise
        if ours is not None:
            raise ours from error
        there = worker_error(error)
        said = there.said if there is not None else " ".join(str(error).split())
        kind = there.kind if there is not None else type(error).__name__
        what = f"{text} raised {kind}" + (f" {there.where}" if there is not None else "")
        what += f": {said}" if said else ""
        if any(sign in said for sign in _OUTSIDE):
            what = (
                f"{text}: real and fake tensors meet; without values, the model and its inputs are "
                "to be made by FUNCTION, not beside it"
            )
        path, line = _place(error)
        raise ProgramError(what, path=path, line=line) from error


def _public(module: Any) -> list[str]:
    own = getattr(module, "__name__", None)
    return [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and callable(value) and getattr(value, "__module__", None) == own
    ]


def _own(error: BaseException) -> DtrdiagError | None:
    """An error of ours, also where a program raised one of its own because of it."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, DtrdiagError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, RecordingError) and cause.path is None:
        cause.path, cause.line = _place(error)
    return cause


def _told_of_fakes(error: BaseException) -> DtrdiagError | None:
    """What fake tensors refused before anything was recorded, in the words of a recording."""
    told = {
        "DataDependentOutputException": "reads a value, which fake tensors do not have",
        "DynamicOutputShapeException": "the sizes of its results depend on data",
        "UnsupportedOperatorException": "has no kernel for fake tensors",
    }
    func = getattr(error, "func", None)
    if type(error).__name__ not in told or func is None:
        return None
    path, line = _place(error)
    return UnsupportedOpError(f"{func}: {told[type(error).__name__]}", path=path, line=line)


_OURS = tuple(
    os.path.dirname(os.path.abspath(str(each.__file__)))
    for each in (dtrdiag, dtrdiag.instrumentation)
)
"""An editable install has them in two folders."""


def _place(error: BaseException) -> tuple[str | None, int | None]:
    """The innermost line that is not of an installed package."""
    if isinstance(error, SyntaxError):
        return error.filename, error.lineno
    frames = [(each.filename, each.lineno) for each in traceback.extract_tb(error.__traceback__)]
    there = worker_error(error)
    for file, line in reversed((*frames, *(() if there is None else there.frames))):
        if os.path.isfile(file) and not (
            "site-packages" in file or file.startswith((*_OURS, os.path.dirname(os.__file__)))
        ):
            return file, line
    return None, None
