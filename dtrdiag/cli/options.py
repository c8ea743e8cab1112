"""Which options do several verbs share, and what run do they ask for?

typer takes each option as a parameter. The rules of a run are the same few in every verb that
simulates, so a verb takes them as one parameter of type `Rules` and `takes_rules` spells them out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import attrs
import typer

from dtrdiag.cli.values import parse_limit
from dtrdiag.errors import UsageError
from dtrdiag.experiments.policyfile import load_policy_file
from dtrdiag.interventions import REPAIRS, Interventions
from dtrdiag.simulator import (
    DEALLOCS,
    DEFAULT_OVERHEAD_LIMIT,
    ENGINES,
    SEMANTICS,
    RunConfig,
    find_policy,
    native_available,
)
from dtrdiag.suggestions import no_such

DEFAULT_POLICY = "dtr"

TraceArgument = Annotated[
    str, typer.Argument(metavar="TRACE", help="Name, DTR log, graph, or archive.zip::MEMBER.")
]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Saved event log, or a TRACE with run options.")
]
Policy = Annotated[
    str | None,
    typer.Option(
        "-p", "--policy", metavar="POLICY", help="Eviction policy (dtr).", show_default=False
    ),
]
Ratio = Annotated[
    str | None,
    typer.Option(
        "-r", "--ratio", metavar="R", help="Budget as a ratio of the peak.", show_default=False
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "-b", "--budget", metavar="SIZE", help="Budget: bytes, 500MB, 1.5GiB.", show_default=False
    ),
]
At = Annotated[int | None, typer.Option("--at", metavar="SEQ", help="After this event (the last).")]
Around = Annotated[
    int | None, typer.Option("--around", metavar="STORAGE", help="Only what is near this storage.")
]
Hops = Annotated[
    int | None, typer.Option("--hops", metavar="N", help="Largest distance from it (2).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]

_RULES: dict[str, Any] = {
    "dealloc": Annotated[
        str | None,
        typer.Option(
            metavar="|".join(DEALLOCS),
            help="What the last release of a storage does (eager).",
            show_default=False,
        ),
    ],
    "overhead_limit": Annotated[
        str | None,
        typer.Option(
            metavar="L|none",
            help="Stop once remat cost exceeds baseline cost x (L - 1) (10).",
            show_default=False,
        ),
    ],
    "seed": Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the policy `random` (0).", show_default=False),
    ],
    "semantics": Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SEMANTICS),
            help="Rules as published, or without their defects (simrd).",
            show_default=False,
        ),
    ],
    "repair": Annotated[
        list[str] | None,
        typer.Option(
            metavar="DEFECT",
            help=f"Repair one defect: {', '.join(REPAIRS)}; repeatable.",
            show_default=False,
        ),
    ],
    "engine": Annotated[
        str | None,
        typer.Option(
            metavar="|".join(ENGINES), help="Which engine decides (auto).", show_default=False
        ),
    ],
    "policy_file": Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py",
            help="Python file of policies; if it has but one, that is the default.",
            show_default=False,
        ),
    ],
}


def _some(values: Sequence[str] | None) -> list[str] | None:
    return list(values) if values else None


def _or(given: str | None, default: str) -> str:
    """The default only where nothing was given: an empty text is no choice."""
    return default if given is None else given


@attrs.frozen
class Rules:
    """The options of a run besides policy and budget, as they were given; None: not given."""

    dealloc: str | None = None
    overhead_limit: str | None = None
    seed: int | None = None
    engine: str | None = None
    policy_file: str | None = None
    semantics: str | None = None
    repair: list[str] | None = attrs.field(default=None, converter=_some)

    def given(self) -> list[str]:
        """The options that were given, as people write them."""
        given = attrs.asdict(self).items()
        return [option_name(name) for name, value in given if value is not None]

    def config(self, policy: str | None) -> RunConfig:
        """The run that the options ask for, without a budget yet.

        Args:
            policy: the policy's name; None: the only one of the policy file, or else the default.

        Raises:
            UsageError: an option has no such value, the policy is unknown, or the policy file
                cannot be used.
        """
        engine = _or(self.engine, "auto")
        if engine not in ENGINES:
            raise UsageError(no_such("engine", engine, ENGINES))
        if engine == "native" and not native_available():
            raise UsageError("the native engine is not built in this installation")
        limit = self.overhead_limit
        return RunConfig(
            self.policy(policy),
            dealloc=_or(self.dealloc, "eager"),
            overhead_limit=DEFAULT_OVERHEAD_LIMIT if limit is None else parse_limit(limit),
            seed=self.seed or 0,
            semantics=_or(self.semantics, "simrd"),
            interventions=Interventions(repairs=self.repairs()),
            engine=engine,
        )

    def repairs(self) -> tuple[str, ...]:
        """The defects to repair one by one, in the order of `REPAIRS`.

        Raises:
            UsageError: there is no such defect, or all are repaired anyway.
        """
        named = self.repair or []
        if named and self.semantics == "repaired":
            raise UsageError("--repair has no effect where --semantics repaired repairs everything")
        known = [name for name in REPAIRS if name in named]
        return (*known, *(name for name in named if name not in REPAIRS))

    def policy(self, name: str | None) -> str:
        """The name of the policy to use, with the policy file loaded; see `config`."""
        registered = () if self.policy_file is None else load_policy_file(self.policy_file)
        if name is None:
            if len(registered) > 1:
                raise UsageError(
                    f"-p is needed to choose one of {', '.join(registered)}", path=self.policy_file
                )
            name = registered[0] if registered else DEFAULT_POLICY
        return find_policy(name).name


def takes_rules(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb that has a parameter `rules: Rules` take each of them as an option."""
    # Not get_type_hints: for a default of None it hides the annotation in an Optional (3.10).
    own = inspect.signature(verb, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=keyword) for p in own if p.name != "rules"]
    parameters += [
        inspect.Parameter(name, keyword, default=None, annotation=hint)
        for name, hint in _RULES.items()
    ]

    @functools.wraps(verb)
    def expanded(**given: Any) -> None:
        rules = Rules(**{name: given.pop(name) for name in _RULES})
        verb(**given, rules=rules)

    del expanded.__wrapped__  # typer would look through it at the verb's own parameters
    expanded.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def option_name(parameter: str) -> str:
    """`overhead_limit` as `--overhead-limit`."""
    return "--" + parameter.replace("_", "-")
