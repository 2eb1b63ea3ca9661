"""Programs: schedules made ready to run, with their memory; running one again allocates no intermediate value.

Executors run them, the plan cache keeps them. A program is a flat list of (runner, slot) over one table of values: the
loop that runs it does nothing but call and store, and everything that can be decided earlier has been.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from explorer.core.errors import OperandError, RunError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.tiles import scratch_memory
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.graph.constancy import is_constant
from explorer.plan.planner import Plan, plan_closed
from explorer.plan.schedule.schedule import Kernel, Placement
from explorer.run.execution.kernel_failure import failure
from explorer.run.execution.observer import Observer
from explorer.run.execution.task_graph import ExecutionChains, chains, dependencies
from explorer.run.kernels.compiled_chain import chain_on_device
from explorer.run.kernels.control_flow import BodyRun, call_runner
from explorer.run.kernels.elementwise_chain import ElementwiseChain, FixedView, fixed_view, in_blocks
from explorer.run.kernels.fused_reduction import FusedReduction
from explorer.run.kernels.runners import BoundStep, ComputeOnce, Runner, Values, copy_into, single
from explorer.run.kernels.tiled_epilogue import TiledEpilogue
from explorer.run.runtime.device_runners import devices_of, finish, finishing, freeing
from explorer.run.runtime.marshalling import parameter_value, read_only
from explorer.run.runtime.memory import Memory, grant
from explorer.run.runtime.thread_pool import has_small_products
from explorer.run.runtime.timing import Timing


class Program:
    """Runners in scheduled order over a table of values; only one thread at a time may run it.

    With ``reusable`` it can be run again for other tensors (run/plan_cache.py): values derived from leaves are then
    computed in each run. ``held`` are arrays of parameters, whose values its caller writes there before a run, and of
    results, which are written there, as in training: at one address, so that runners may cut their blocks once.
    """

    def __init__(
        self,
        planned: Plan,
        within: Array | None = None,
        reusable: bool = False,
        held: Mapping[Expr, Array] | None = None,
    ) -> None:
        self.planned = planned
        self._held = {node.uid: array for node, array in (held or {}).items()}
        schedule = planned.schedule
        # A call's body runs in memory of its caller, which has been granted as a whole.
        if within is None:
            grant(schedule)
        self.slots: dict[int, int] = {}
        self.values: Values = []
        self.parameters: list[Expr] = []
        self._closed: dict[tuple[int, int], Program] = {}
        """programs of calls that were not inlined, by body and offset of their memory in ours"""
        self._views: list[tuple[int, Runner]] = []
        """leaves that are views of leaves"""
        for leaf in schedule.leaves:
            self._add(leaf, self._leaf(leaf))
        for kernel in schedule.kernels:
            # Every result has a slot, placed or not: runners are lists of slots, made once.
            self._add(kernel.result, None)
        self.memory = Memory(schedule, within)
        passing = {leaf.uid for leaf in schedule.leaves if isinstance(leaf.operation, Parameter)} - {*self._held}
        # Each graph that a cached program runs brings tensors of its own, so no leaf keeps its address.
        if reusable:
            passing = {leaf.uid for leaf in schedule.leaves}
        self.fixed_memory = {leaf.uid for leaf in schedule.leaves if leaf.uid not in passing}
        """uids of values at the same address in every run"""
        steps = [*zip(schedule.kernels, schedule.placements, strict=True)]
        # In scheduled order: whether a runner's operands stay at one address is known from the runners before it.
        self.runners: list[tuple[Runner, int]] = [
            (self._runner(kernel, placement), self.slots[kernel.result.uid]) for kernel, placement in steps
        ]
        # Before runners are wrapped below: it looks for `ComputeOnce` among them.
        self._let_go()
        self.runners = freeing(self.runners, schedule, self.slots)
        # A call's body is finished with its caller.
        self._devices = devices_of(schedule) if within is None else []
        self.waits = not self._devices
        """whether each kernel ends when its device has done the work"""
        self._other_runners: list[tuple[Runner, int]] = []
        self.results = [self.slots[root.uid] for root in schedule.roots]
        self.temporary = [
            self.slots[kernel.result.uid] for kernel, _ in steps if kernel.result.uid not in self.fixed_memory
        ]
        """slots of values that are another object in each run"""
        self.bound: BoundRun | None = None
        """the calls of a run, once two runs on one thread have shown where everything lies"""
        self._ran_in: Array | None = None
        """scratch memory of the thread of the last run that was not bound"""
        self.single_threaded = any(getattr(runner, "shared", False) for runner, _ in self.runners) or (
            not self._devices and has_small_products(schedule.kernels)
        )
        """whether BLAS has one thread in a run: workers take part, or no product is worth several"""
        given = {parameter.uid for parameter in self.parameters}
        self._written = {self.slots[root.uid] for root in schedule.roots if root.uid in self._held.keys() - given}
        """slots of results in the caller's memory"""
        self.borrowed = self._aliases_held(given) - self._written
        """slots of results that are a parameter's value, or a view of one or of a written result"""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernels={len(self.planned.schedule.kernels)})"

    def _add(self, node: Expr, value: Any) -> None:
        self.slots[node.uid] = len(self.values)
        self.values.append(value)

    def _leaf(self, leaf: Expr) -> Any:
        if isinstance(leaf, Tensor):
            leaf.mark_used()
            return leaf.storage.array
        if isinstance(leaf.operation, Parameter):
            self.parameters.append(leaf)
            return self._held.get(leaf.uid)
        operands = self.planned.graph.inputs[leaf.uid]
        run = single(leaf.operation, [self.slots[o.uid] for o in operands], leaf.type, None, [o.type for o in operands])
        self._views.append((len(self.values), run))
        return run(self.values)

    def bind_leaves(self, tensors: Iterable[tuple[int | None, Tensor]], parts: dict[int, Array] | None = None) -> None:
        """Bind another graph's tensors, and parts of tensors without the whole, by slot, until ``release_leaves``."""
        values = self.values
        for slot, tensor in tensors:
            if slot is not None:
                values[slot] = tensor.storage.array
        # After the tensors, whose memory they show.
        for slot, run in self._views:
            values[slot] = parts[slot] if parts and slot in parts else run(values)

    def release_leaves(self, slots: Iterable[int | None]) -> None:
        """Drop the bound values and views of them; keep tensors that rules of the plan introduced."""
        for slot in (*slots, *[slot for slot, _ in self._views]):
            if slot is not None:
                self.values[slot] = None

    def _constant(self, node: Expr) -> bool:
        """Whether a value is the same in every run; asked only where results derived from it are worth keeping."""
        # Without parameters a program runs once: a packed copy would only take memory.
        return bool(self.parameters) and is_constant(node, self.planned.graph)

    def _runner(self, kernel: Kernel, placement: Placement) -> Runner:
        slot, out = self.slots[kernel.result.uid], self.memory.result(kernel, placement)
        operation = kernel.result.operation
        if out is None and not (kernel.is_view or kernel.channels_last or isinstance(operation, Call)):
            out = self._held.get(kernel.result.uid)
        runner = self._running(kernel, placement, out)
        # A constant, a result in the arena and a view of either lie at one address in every run: their readers may
        # cut their blocks once. Everything else is another array each time.
        if kernel.constant:
            runner = ComputeOnce(runner, slot)
        elif out is not None:
            self.values[slot] = out
        elif (fixed := self._fixed_view(kernel, runner)) is None:
            return runner
        else:
            self.values[slot], runner = fixed.value, fixed
        self.fixed_memory.add(kernel.result.uid)
        return runner

    def _fixed_view(self, kernel: Kernel, runner: Runner) -> FixedView | None:
        """Return the runner of a view of memory that is the same in every run; None for any other kernel."""
        if not kernel.is_view or len(kernel.reads) != 1 or kernel.reads[0].uid not in self.fixed_memory:
            return None
        return fixed_view(runner, self.values, self.values[self.slots[kernel.reads[0].uid]])

    def _running(self, kernel: Kernel, placement: Placement, out: Any) -> Runner:
        """Make the runner of a kernel for its kind of code: tiled, reducing, elementwise, call or single operation."""
        result = kernel.result
        type_ = result.type
        inputs = self.planned.graph.inputs
        fixed_memory = all(read.uid in self.fixed_memory for read in kernel.reads)
        anchor = kernel.nodes[0]
        if anchor.operation.is_tileable and all(node.type.plain for node in (anchor, *inputs[anchor.uid])):
            packed_operand = anchor.operation.packed_operand
            constant = packed_operand is not None and self._constant(inputs[anchor.uid][packed_operand])
            return TiledEpilogue(kernel, lambda node: inputs[node.uid], self.slots, out, fixed_memory, constant)
        if kernel.blocks is not None and kernel.blocks.tiling is not None:
            scratch = self.memory.scratch(kernel, placement)
            return FusedReduction(kernel, lambda node: inputs[node.uid], self.slots, out, scratch, fixed_memory)
        if len(kernel.nodes) > 1 and type_.device is not cpu:
            return chain_on_device(kernel, lambda node: inputs[node.uid], self.slots, out)
        blocked = kernel if len(kernel.nodes) > 1 else in_blocks(kernel, inputs[result.uid])
        if blocked is not None:
            return ElementwiseChain(blocked, lambda node: inputs[node.uid], self.slots, out, fixed_memory)
        sources = [self.slots[operand.uid] for operand in inputs[result.uid]]
        if isinstance(result.operation, Call):
            runs = [self._closed_body(kernel, placement, body) for body in result.operation.planned_bodies]
            return call_runner(result.operation, runs, sources, type_)
        types = [operand.type for operand in inputs[result.uid]]
        return single(result.operation, sources, type_, out, types, fixed_memory)

    def _let_go(self) -> None:
        """Drop constants that only constants read, when the last of these has been computed."""
        kernels = self.planned.schedule.kernels
        last: dict[int, int] = {kernel.result.uid: -1 for kernel in kernels if kernel.constant}
        for index, kernel in enumerate(kernels):
            for read in kernel.reads:
                if kernel.constant and read.uid in last:
                    last[read.uid] = index
                else:
                    last.pop(read.uid, None)
        for uid, index in last.items():
            runner = self.runners[index][0] if index >= 0 else None
            if isinstance(runner, ComputeOnce):
                runner.drops.append(self.slots[uid])

    @functools.cached_property
    def chains(self) -> ExecutionChains:
        """Its execution chains and their dependencies."""
        uid_of = {slot: uid for uid, slot in self.slots.items()}
        drops = {
            index: [uid_of[slot] for slot in getattr(runner, "drops", ())]
            for index, (runner, _) in enumerate(self.runners)
        }
        schedule = self.planned.schedule
        return chains(schedule, dependencies(schedule, drops))

    def _aliases_held(self, given: set[int]) -> set[int]:
        """Return the slots of results in the caller's memory, or views of it, through any number of views."""
        base = given | self._held.keys()
        for kernel in self.planned.schedule.kernels:
            if kernel.is_view and kernel.reads and kernel.reads[0].uid in base:
                base.add(kernel.result.uid)
        return {self.slots[root.uid] for root in self.planned.schedule.roots if root.uid in base}

    def bind(self, inputs: Mapping[Expr, Any]) -> None:
        """Set the values of parameters; raises StateError for a missing one, OperandError for one that does not fit."""
        values_by_uid = {node.uid: value for node, value in inputs.items()}
        for node in inputs:
            if not isinstance(node.operation, Parameter):
                raise OperandError(
                    f"a value for {node!r}",
                    rule="only parameters can have values of a run",
                    fix="plan.eval({parameter: value})",
                )
        for parameter in self.parameters:
            if parameter.uid not in self._held:
                self.values[self.slots[parameter.uid]] = self._value_of(parameter, values_by_uid)

    def _value_of(self, parameter: Expr, values: Mapping[int, Any]) -> Any:
        """Return the value of a parameter among values by uid, in its dtype."""
        if parameter.uid not in values:
            raise StateError(
                f"the parameter {parameter.operation.label!r} ({parameter.type}) has no value",
                rule="every parameter that a result depends on must have a value",
                fix="evaluate a call of the function, or give the net all its inputs",
            )
        return parameter_value(parameter, values[parameter.uid])

    def wait_for_devices(self, wait: bool) -> None:
        """Choose whether kernels end when devices other than cpu have done the work, or when they were told to."""
        if self._devices and wait is not self.waits:
            others = self._other_runners or finishing(self.runners, self.planned.schedule)
            self.runners, self._other_runners, self.waits = others, self.runners, wait

    def blank_timing(self) -> Timing:
        """The times of a run in which no kernel has run yet."""
        count = len(self.runners)
        return Timing([0] * count, [0] * count, [0] * count)

    def run_kernel(self, index: int, timing: Timing, observer: Observer | None = None, thread: int = 0) -> None:
        """Run one kernel and note its times; raises RunError that names the operation and the line that recorded it."""
        try:
            if observer is not None:
                observer.before_kernel(index)
            runner, slot = self.runners[index]
            timing.threads[index], timing.began[index] = thread, perf_counter_ns()
            self.values[slot] = runner(self.values)
            timing.ended[index] = perf_counter_ns()
            if observer is not None:
                observer.after_kernel(index)
        except RunError:  # of an operation inside a call, which it names already
            raise
        except Exception as error:
            raise failure(self.planned, index, self.runners[index][0], error) from error

    def run_at(
        self,
        chain: int,
        timing: Timing,
        observer: Observer | None = None,
        thread: int = 0,
        begins: Callable[[int], bool] = lambda index: True,
    ) -> bool:
        """Run the kernels of a chain, one after the other; return whether all of them ran.

        ``begins`` is asked before each kernel, with its number: False ends the chain there. Raises RunError, as
        ``run_kernel`` does.
        """
        for index in self.chains.kernels[chain]:
            if not begins(index):
                return False
            self.run_kernel(index, timing, observer, thread)
        return True

    def bind_run(self) -> None:
        """Bind the calls of the next run, after a run on the thread that ran it before, too."""
        memory = scratch_memory()
        if self._ran_in is memory and (self.bound is None or self.bound.kernels_bound):
            self.bound = BoundRun(self.runners, self.values)
        self._ran_in = memory

    def take(self) -> list[Any]:
        """Return the results of the run, read-only; clear all values outside planned memory."""
        results = self.read()
        self.forget()
        return results

    def read(self) -> list[Any]:
        """Return the results of the run, read-only."""
        for device in self._devices:
            finish(device)
        values, borrowed = self.values, self.borrowed
        return [
            values[slot] if slot in self._written else read_only(values[slot], slot in borrowed)
            for slot in self.results
        ]

    def forget(self) -> None:
        """Drop the values of a run that are not in planned memory."""
        for slot in self.temporary:
            self.values[slot] = None
        for parameter in self.parameters:
            if parameter.uid not in self._held:
                self.values[self.slots[parameter.uid]] = None

    def _closed_body(self, kernel: Kernel, placement: Placement, body: Body) -> BodyRun:
        """Make the function that runs a body that was not inlined: it is planned once and runs in our memory."""
        planned, inputs = plan_closed(body, self.planned.options)
        # Calls of one body in one place share a program, since they never run at the same time (task_graph.py).
        key = id(body), placement.scratch_offset
        inner = self._closed.get(key)
        if inner is None:
            with one_deeper(f"a program of {body.name}"):
                inner = self._closed[key] = Program(planned, self.memory.scratch(kernel, placement))
        places = [(inner.slots[node.uid], place) for place, node in enumerate(inputs) if node.uid in inner.slots]

        def run(operands: Sequence[Any]) -> list[Any]:
            table = inner.values
            for slot, place in places:
                table[slot] = operands[place]
            at = 0
            try:
                with one_deeper(f"a run of {body.name}"):
                    # Not by run_kernel: the call has one time, and no observer looks inside.
                    for runner, slot in inner.runners:
                        table[slot] = runner(table)
                        at += 1
                return inner.take()
            except RunError:
                raise
            except Exception as error:
                raise failure(inner.planned, at, inner.runners[at][0], error) from error
            finally:
                inner.forget()

        return run


class BoundRun:
    """Calls of all kernels in scheduled order, for the thread that binds them.

    Made right after a run, when ``values`` holds the results. Those of bound kernels stay there, in memory that is the
    same in every run.
    """

    def __init__(self, runners: Sequence[tuple[Runner, int]], values: Values) -> None:
        self._failed: Expr | None = None
        self.kernels_bound = 0
        self._runners = runners
        self._kernels: list[list[BoundStep]] = []
        for runner, slot in runners:
            bind = getattr(runner, "bound_steps", None)
            steps = None if bind is None else bind()
            if steps is None:
                steps = [(functools.partial(_store, runner, values, slot), None, None)]
            else:
                self.kernels_bound += 1
            self._kernels.append(steps)
        # Registers lie in the scratch memory of the thread, each time in the same.
        self._memory = scratch_memory()

    def is_of(self, runners: Sequence[tuple[Runner, int]]) -> bool:
        """Whether this thread may run it in place of these runners: they and its scratch memory are those bound."""
        return self._runners is runners and self._memory is scratch_memory()

    def take_failed(self) -> Expr | None:
        """Return the operation that has just raised, and forget it; None if its kernel knows it itself."""
        failed, self._failed = self._failed, None
        return failed

    def run(self, times: list[int]) -> None:
        """Run all kernels; append the time of the beginning, and of the end of each."""
        note = times.append
        step: BoundStep | None = None
        note(perf_counter_ns())
        try:
            for kernel in self._kernels:
                for step in kernel:
                    call, target, _ = step
                    value = call()
                    if value is not target and target is not None:
                        copy_into(target, value)
                note(perf_counter_ns())
        except Exception:
            self._failed = None if step is None else step[2]
            raise


def _store(runner: Runner, values: Values, slot: int) -> None:
    values[slot] = runner(values)
