"""What does one training step come to, plain and under a budget, begun from the same state?

A `Bench` takes a step again and again: before each time parameters, buffers, inputs, the optimizer
and the random state are what they were at first, so that every difference is the runtime's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from time import perf_counter_ns, process_time_ns
from typing import Any

import attrs
import torch

from dtrdiag.hooks import Hooks
from dtrdiag.instrumentation.pytorch.allocated import AllocatorWatch, CudaFigures
from dtrdiag.instrumentation.pytorch.describe import tensors_in
from dtrdiag.instrumentation.pytorch.errors import (
    BudgetError,
    LiveRunError,
    RematOutOfMemoryError,
    RematThrashedError,
    UnsupportedOpError,
)
from dtrdiag.instrumentation.pytorch.live import remat
from dtrdiag.instrumentation.pytorch.step import Step
from dtrdiag.instrumentation.pytorch.taking import clear_gradients
from dtrdiag.instrumentation.pytorch.witness import Witness
from dtrdiag.simulator import RunConfig, RunResult
from dtrdiag.trace.model import Trace

REFUSED, FAILED = "refused", "failed"
"""Outcomes that no log has: the budget is below what has to stay; the live run cannot go on."""


@attrs.frozen
class Trial:
    """One step that was taken.

    Attributes:
        outcome: `ok`, `oom`, `thrashed`, `refused` or `failed`.
        why: what the runtime said where the step did not end.
        result: of a live run that ended or stopped by its rules.
        wall_ns: from before forward to after backward.
        cpu_ns: likewise, time of the process on its CPUs, whatever else the machine does.
        first_ns: in kernels the first time that each op ran; of a live run.
        again_ns: in kernels that ran again.
        owned_bytes: most bytes that tensors owned, where that was asked for.
        risen_bytes: most that the allocator handed out beyond the start, where asked for.
        cuda: likewise, on CUDA.
        values: name to value of results, gradients, buffers and parameters; none unless `ok`.
    """

    outcome: str
    why: str | None
    result: RunResult | None
    wall_ns: int
    cpu_ns: int
    first_ns: int | None = None
    again_ns: int | None = None
    owned_bytes: int | None = None
    risen_bytes: int | None = None
    cuda: CudaFigures | None = None
    values: Mapping[str, Any] = attrs.field(factory=dict, repr=False)


class Bench:
    """Takes one step, each time from the same state.

    Args:
        step: to be taken; an optimizer steps after forward and backward, outside of a live run.
        seed: of the random numbers that it draws.
    """

    def __init__(self, step: Step, seed: int = 0) -> None:
        self._step, self._seed = step, seed
        self.restores = step.model is not None
        """Whether each step begins where the first began: not where no model is known."""
        self._tensors = _named(step.model)
        kept = [*self._tensors.values(), *step.inputs]
        self._before = [(tensor.detach(), tensor.detach().clone()) for tensor in kept]
        self._optimizer = step.optimizer and copy.deepcopy(step.optimizer.state_dict())
        some = next(iter((*self._tensors.values(), *step.inputs)), None)
        self.device = torch.device("cpu") if some is None else some.device

    def eager(self, *, owned: bool = False, allocated: bool = False) -> Trial:
        """Plain PyTorch."""
        with self._drawing(), self._watched(owned, allocated) as watched:
            started = self._now()
            result = self._step.run()
            spent = self._since(started)
        values = self._values(result)
        return Trial("ok", None, None, *spent, values=values, **watched)

    def live(
        self,
        config: RunConfig,
        trace: Trace,
        hooks: Hooks | None = None,
        *,
        owned: bool = False,
        allocated: bool = False,
    ) -> Trial:
        """Under the budget and the rules of `config`, as the trace that was recorded of the step.

        Raises:
            Exception: whatever the program itself raises.
        """
        rt = self._remat(config, trace, hooks)
        outcome, why, stopped, result = "ok", None, None, None
        with self._drawing(), self._watched(owned, allocated) as watched:
            started = self._now()
            try:
                with rt:
                    result = self._step.run()
            except (RematOutOfMemoryError, RematThrashedError) as error:
                stopped, why = error.result, error.what
                outcome = stopped.end.outcome
            except (LiveRunError, UnsupportedOpError) as error:
                outcome = REFUSED if isinstance(error, BudgetError) else FAILED
                why = error.what
            spent = self._since(started)
        values = self._values(result) if outcome == "ok" else {}
        times = (rt.times.first_ns, rt.times.again_ns)
        ended = rt.result or stopped
        return Trial(outcome, why, ended, *spent, *times, values=values, **watched)

    def _remat(self, config: RunConfig, trace: Trace, hooks: Hooks | None) -> remat:
        return remat(
            config.budget_bytes,
            config.policy,
            model=self._step.model,
            dealloc=config.dealloc,
            overhead_limit=config.overhead_limit,
            trace=trace,
            hooks=hooks,
            seed=config.seed,
            peak_bytes=config.peak_bytes,
            ratio=config.ratio,
        )

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """All is as it was at first; the caller's random state comes back afterwards."""
        clear_gradients(self._step)
        with torch.no_grad():
            for tensor, before in self._before:
                tensor.copy_(before)
        if self._optimizer:
            self._step.optimizer.load_state_dict(copy.deepcopy(self._optimizer))
        with torch.random.fork_rng():
            torch.manual_seed(self._seed)
            yield

    @contextmanager
    def _watched(self, owned: bool, allocated: bool) -> Iterator[dict[str, Any]]:
        found: dict[str, Any] = {}
        with ExitStack() as stack:
            watch = stack.enter_context(AllocatorWatch(self.device)) if allocated else None
            witness = None
            if owned:
                # Inputs count from their first use on, as the core counts them.
                witness = stack.enter_context(Witness(self._tensors.values()))
            yield found
        if watch is not None:
            found.update(risen_bytes=watch.rise_bytes, cuda=watch.cuda)
        if witness is not None:
            found.update(owned_bytes=witness.peak_bytes)

    def _now(self) -> tuple[int, int]:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return perf_counter_ns(), process_time_ns()

    def _since(self, before: tuple[int, int]) -> tuple[int, int]:
        wall_ns, cpu_ns = self._now()
        return wall_ns - before[0], cpu_ns - before[1]

    def _values(self, result: Any) -> dict[str, Any]:
        """Copies of everything that a step leaves; the optimizer steps before the last of them."""
        found = {f"result {i}": tensor for i, tensor in enumerate(tensors_in(result))}
        if self._step.model is not None:
            for name, parameter in self._step.model.named_parameters():
                if parameter.grad is not None:
                    found[f"gradient of {name}"] = parameter.grad
        if self._step.optimizer is not None:
            self._step.optimizer.step()
        found |= self._tensors
        return {name: tensor.detach().clone() for name, tensor in found.items()}


def _named(model: Any) -> dict[str, Any]:
    if model is None:
        return {}
    kinds: Iterable[tuple[str, Any]] = (
        *((f"parameter {name}", p.detach()) for name, p in model.named_parameters()),
        *((f"buffer {name}", b) for name, b in model.named_buffers()),
    )
    return dict(kinds)


def differing(a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[list[str], float]:
    """Which values differ in a bit, and by how much at most; NaN and shapes count as infinity.

    Args:
        a: values by name.
        b: those to compare with.
    """
    names, most = [], 0.0
    for name in (*a, *(name for name in b if name not in a)):
        if name in a and name in b and _same(a[name], b[name]):
            continue
        names.append(name)
        apart = _apart(a[name], b[name]) if name in a and name in b else float("inf")
        most = max(most, apart)
    return names, most


def _same(a: Any, b: Any) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    flat = (each.contiguous().reshape(-1).view(torch.uint8) for each in (a, b))
    return bool(torch.equal(*flat))


def _apart(a: Any, b: Any) -> float:
    if a.shape != b.shape or not a.numel():
        return float("inf")
    apart = float((a.double() - b.double()).abs().max())
    return float("inf") if apart != apart else apart
