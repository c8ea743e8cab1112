"""What happens to an unmodified training step when memory runs out? Evict and recompute, for real.

`remat` runs a block of PyTorch code on real tensors under a memory budget. What is evicted, and
what is computed again, is decided by the simulator's own core, told of each operator as it comes;
so the log of a live run is what the log of a simulated one is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import torch

from dtrdiag.hooks import Hooks, Undo
from dtrdiag.instrumentation.jsonl import JsonlWriter
from dtrdiag.instrumentation.parquet import ParquetWriter
from dtrdiag.instrumentation.pytorch.arguments import check_arguments, config_of
from dtrdiag.instrumentation.pytorch.contexts import QuietCollector
from dtrdiag.instrumentation.pytorch.costs import CostModel
from dtrdiag.instrumentation.pytorch.describe import storage_id
from dtrdiag.instrumentation.pytorch.errors import BudgetError, LiveRunError, RematOutOfMemoryError
from dtrdiag.instrumentation.pytorch.livemode import LiveMode
from dtrdiag.instrumentation.pytorch.modelstate import ModelState, parameters_in
from dtrdiag.instrumentation.pytorch.propagation import default_costs
from dtrdiag.instrumentation.pytorch.registering import named_tensors
from dtrdiag.instrumentation.pytorch.stops import bytes_error, stop_error
from dtrdiag.instrumentation.pytorch.world import Times, World, write_back
from dtrdiag.instrumentation.writing import log_writer
from dtrdiag.simulator import LiveRun, RunResult, RunStoppedError
from dtrdiag.trace.catalog import resolve
from dtrdiag.trace.model import Trace


class remat:  # noqa: N801 - reads as a statement: `with remat(budget) as rt`
    """Run a block of PyTorch code under a memory budget, evicting and recomputing tensors.

    The block is forward and backward of a training step; the optimizer steps after it. Gradients
    are plain tensors then, buffers are up to date, and tensors that live on have their values. The
    budget counts the bytes of all storages that the block uses: parameters, buffers and inputs too.

    Args:
        budget_bytes: None for unlimited.
        policy: name of a registered policy.
        model: the `torch.nn.Module`: its parameters and buffers count from the start.
        optimizer: likewise, its state; only if the block steps it.
        dealloc: "eager" or "ignore".
        overhead_limit: stop once recomputation has cost more than `trace`'s ops x (limit - 1).
        trace: the same step as recorded, or its name or file: the log names it then.
        costs: what an execution counts as; a roofline by default.
        log: a file for the events of the run.
        force: replace a log that is there.
        hooks: who else is told about events.
        options: further rules of `RunConfig`.

    Attributes:
        result: what the run came to, after the block.
        times: time spent in kernels.

    Raises:
        UsageError: an argument is not what it has to be.
        NestedContextError: inside another recording or live run.
        BudgetError: the budget is below what cannot be evicted.
        RematOutOfMemoryError, RematThrashedError: as the simulator would; the model is as before.
        UnsupportedOpError: an operator cannot be told beforehand, or not be repeated.
        LiveRunError: the same object is entered again, or something needs the bytes of a tensor.
    """

    def __init__(
        self,
        budget_bytes: int | None,
        policy: str = "dtr",
        *,
        model: Any = None,
        optimizer: Any = None,
        dealloc: str = "eager",
        overhead_limit: float | None = None,
        trace: Trace | str | os.PathLike[str] | None = None,
        costs: CostModel | None = None,
        log: str | os.PathLike[str] | None = None,
        force: bool = False,
        hooks: Hooks | None = None,
        **options: Any,
    ) -> None:
        check_arguments(model, optimizer, trace, costs, log, hooks)
        self._model, self._optimizer = model, optimizer
        self._config = config_of(
            policy, budget_bytes, dealloc=dealloc, overhead_limit=overhead_limit, **options
        )
        self._trace = trace if trace is None or isinstance(trace, Trace) else resolve(trace)
        self._hooks = hooks if hooks is not None else Hooks()
        self._undo: Undo | None = None
        self._writer: JsonlWriter | ParquetWriter | None = None
        self._log, self._force = log, force
        self._collector = QuietCollector(collects=False)
        self._world = World()
        self._mode = LiveMode(self._world, costs or default_costs())
        self._state: ModelState | None = None
        self._entered = False
        self.result: RunResult | None = None

    @property
    def times(self) -> Times:
        """Time spent in kernels, and how often they ran."""
        return self._world.times

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory now, as the core counts them."""
        return self._world.run.memory_bytes

    def __enter__(self) -> remat:
        self._mode.refuse_nested()
        if self._entered:
            raise LiveRunError("a live run is of one block: make another `remat` for another")
        self._entered = True
        # Walks over a model take their time: each once.
        named = list(named_tensors(self._model, self._optimizer))
        modules = [] if self._model is None else list(self._model.modules())
        parameters = parameters_in(modules)
        wanted = [parameter for parameter in parameters if parameter.requires_grad]
        self._refuse_small_budget(named, wanted)
        parameters += _further_parameters(self._optimizer, parameters)
        if self._log is not None:
            self._writer = log_writer(self._log, force=self._force)
            self._undo = self._hooks.subscribe(self._writer)
        try:
            self._world.run = self._run()
            self._mode.register(named, parameters)
        except RunStoppedError as error:
            self._abandon()
            self._close_log()
            raise BudgetError(f"the constants alone do not fit: {error.what}") from None
        except BaseException:
            self._abandon()
            self._close_log()
            raise
        known = self._mode.known
        self._state = ModelState(self._model, modules, parameters, self._optimizer, known)
        self._collector.begin()
        self._mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._mode.__exit__(kind, error, traceback)
        # Kept in the mode it would keep frames alive, and they the mode.
        failure, self._mode.failure = self._mode.failure, None
        try:
            if isinstance(failure, RematOutOfMemoryError) and self._log is not None:
                failure.what += f"; `dtrdiag oom {os.fspath(self._log)}` tells who holds what"
            if failure is not None and error is not failure:
                # Also where the block has caught it: there are no values to go on with.
                raise failure
            unable = bytes_error(error)
            if unable is not None:
                raise unable from error
            if kind is None:
                with torch._C._AutoDispatchBelowAutograd():
                    self._finish()
        finally:
            failure = unable = None
            if self.result is None:
                self._abandon()
            self._collector.end()
            self._close_log()

    def _run(self) -> LiveRun:
        trace = self._trace
        known: dict[str, Any] = {}
        if trace is not None:
            known = {
                "trace_name": trace.name,
                "trace_sha256": trace.sha256,
                "trace_ops": trace.ops,
                "trace_tensors": trace.tensors,
                "baseline_cost_ns": trace.baseline_cost_ns,
            }
        elif self._model is not None:
            known = {"trace_name": type(self._model).__name__}
        hooks = self._hooks
        world = self._world
        return LiveRun(self._config, execute=world.execute, evict=world.evict, hooks=hooks, **known)

    def _refuse_small_budget(self, named: Sequence[tuple[str, Any]], wanted: Sequence[Any]) -> None:
        """Refuse a budget under what the block needs in any case: constants and gradients."""
        budget = self._config.budget_bytes
        if budget is None or self._model is None:
            return
        storages = {storage_id(tensor): tensor.untyped_storage().nbytes() for _, tensor in named}
        constants = sum(storages.values())
        gradients = sum(p.numel() * p.element_size() for p in wanted)
        if constants + gradients > budget:
            raise BudgetError(
                f"a budget of {budget} bytes is below the {constants} bytes that are there before, "
                f"such as parameters and buffers, with {gradients} bytes of gradients to come, "
                "which all are there at the end"
            )

    def _finish(self) -> None:
        """The outputs of the step get their values, and the program gets them."""
        if self._state is not None and self._state.is_lost():
            raise LiveRunError(
                "`.data` of a parameter, buffer, gradient or input was assigned a tensor of the "
                "live run; use copy_()"
            )
        outputs = self._mode.outputs()
        world = self._world
        try:
            self.result = world.run.finish(outputs)
        except RunStoppedError as error:
            raise stop_error(world.run, error) from None
        for constant, tensor in self._mode.constants.values():
            if constant.held.versions:
                write_back(tensor, world.values[constant.held.root])
        for held, reference in self._mode.alive.values():
            owner = reference()
            if owner is not None:
                owner.settled = world.values[held.root]
        self._mode.close("the live run that made it is over")
        if self._state is not None:
            self._state.settle(self._mode.leaves.values())
        self._forget()

    def _abandon(self) -> None:
        """The run has failed: the model is as before, and nothing is kept."""
        self._mode.close("the live run that made it stopped without a value of it")
        self._world.restore_random_state()
        if self._state is not None:
            self._state.restore(self._mode.leaves.values())
        self._forget()

    def _forget(self) -> None:
        """Keep nothing of before, for as long as this object may live."""
        self._state = None
        self._mode.leaves.clear()
        self._mode.known.clear()
        self._world.close()

    def _close_log(self) -> None:
        if self._undo is not None:
            self._undo()
        if self._writer is not None:
            self._writer.close()


def _further_parameters(optimizer: Any, parameters: Sequence[Any]) -> list[Any]:
    """Parameters of an optimizer that are not the model's."""
    if optimizer is None:
        return []
    known = {id(parameter) for parameter in parameters}
    return [p for group in optimizer.param_groups for p in group["params"] if id(p) not in known]
