"""Programs: schedules that are ready to run, with their memory.

Executors run programs, and the plan cache stores them. A program is a flat list of (runner, slot) pairs, in which slots
are indices into one table of values. Running it again only calls runners and stores results, and allocates no
intermediate values. Its binding (binding.py) specifies who owns the memory of operands and results.

A training step overwrites its parameters only when nothing can fail any more. Executors run all kernels except the
updates, the last kernels of the plan (plan/passes/update_in_place.py); the caller then inspects the results and may
call ``update``. If a run fails or is interrupted, or the caller rejects a result, no parameter changes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, RunError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body, Call, Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.tiles import scratch_memory
from explorer.core.recursion_limit import one_deeper
from explorer.core.types.device import cpu
from explorer.core.types.device_copies import copied, fill
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.graph.constancy import is_constant
from explorer.plan.planner import Plan, plan_closed
from explorer.plan.schedule.schedule import Kernel, Placement, Schedule
from explorer.run.execution.binding import Binding
from explorer.run.execution.kernel_dependencies import ExecutionChains, chains, dependencies
from explorer.run.execution.kernel_failure import failure
from explorer.run.execution.observer import Observer
from explorer.run.kernels.control_flow import BodyFunction, call_runner
from explorer.run.kernels.device_chain import chain_on_device
from explorer.run.kernels.elementwise_chain import ElementwiseChain, FixedView, fixed_view, in_blocks
from explorer.run.kernels.fused_reduction import FusedReduction
from explorer.run.kernels.in_sequence import InSequence
from explorer.run.kernels.runners import BoundStep, ComputeOnce, Runner, Values, copy_into, single
from explorer.run.kernels.tiled_epilogue import TiledEpilogue
from explorer.run.native.library import Function, Library, library_of, notes
from explorer.run.native.native_call import NativeCall, joined
from explorer.run.native.native_epilogue import NativeEpilogue
from explorer.run.native.native_kernel import NativeKernel
from explorer.run.native.native_steps import NativeSteps
from explorer.run.runtime.device_runners import devices_of, finish, finishing, freeing
from explorer.run.runtime.marshalling import parameter_value, read_only
from explorer.run.runtime.memory import Memory, grant
from explorer.run.runtime.thread_pool import has_small_products
from explorer.run.runtime.timing import Note, Timing

_DEFAULT = Binding()


class Program:
    """Runners in the order of the schedule, and their table of values. Only one thread may run a program at a time."""

    def __init__(self, planned: Plan, binding: Binding = _DEFAULT) -> None:
        schedule = planned.schedule
        if binding.within is None:
            grant(schedule)
        self.binding = binding
        self._full_plan = planned
        first = len(schedule.kernels) - binding.deferred
        self.planned = _without_updates(planned, first) if binding.deferred else planned
        """the plan with all kernels except the deferred kernels"""
        self.memory = Memory(schedule, binding.within)
        self._fixed_arrays = {node.uid: array for node, array in binding.memory.items()}
        # Every result has a slot, even without memory in the arena, because runners refer to slots and are built only
        # once.
        nodes = [*schedule.leaves, *[kernel.result for kernel in schedule.kernels]]
        self.slots = {node.uid: slot for slot, node in enumerate(nodes)}
        self.values: Values = [None] * len(nodes)
        self.parameters = [leaf for leaf in schedule.leaves if isinstance(leaf.operation, Parameter)]
        self._views = self._store_leaves(schedule.leaves)
        """leaves that are views of other leaves"""
        self._copies_tensors = binding.rebound and bool(binding.memory)
        brought = (
            schedule.leaves
            if binding.rebound and not binding.memory
            else [p for p in self.parameters if p.uid not in self._fixed_arrays]
        )
        self.fixed_memory = {leaf.uid for leaf in schedule.leaves} - {leaf.uid for leaf in brought}
        """uids of values that have the same address in every run"""
        codes = [code for kernel in schedule.kernels for code in kernel.functions]
        self._library = library_of(codes) if codes else None
        self._closed: dict[tuple[int, int], Program] = {}
        """programs of calls that were not inlined, keyed by body and memory offset"""
        runners = freeing(self._link(schedule), schedule, self.slots)
        own = [] if self._library is None else [self._library]
        self.libraries: list[Library] = [*own, *[each for body in self._closed.values() for each in body.libraries]]
        """compiled functions of the plan, and of the bodies that it calls"""
        self.runners, self._updates = runners[:first], runners[first:]
        self._bound_updates: BoundRun | None = None
        # The program that calls a body waits for the body's devices.
        self._devices = devices_of(schedule) if binding.within is None else []
        self.waits = not self._devices
        """whether each kernel ends only when its device has finished the work"""
        self._other_runners: list[tuple[Runner, int]] = []
        self.bound: BoundRun | None = None
        """bound calls of all kernels, once two runs on one thread have determined all addresses"""
        self.timed = True
        """whether executors measure the time of each kernel; if not, one call runs consecutive compiled kernels"""
        self._last_scratch: Array | None = None
        """scratch memory of the thread of the last run that was not bound"""
        self._is_shared = any(getattr(runner, "shared", False) for runner, _ in runners)
        """whether threads compute parts of a kernel"""
        self.single_threaded = self._is_shared or self._has_small_products(schedule.kernels)
        """whether BLAS uses one thread in a run: other threads compute parts, or no product is worth several threads"""
        operands = [p for p in self.parameters if p.uid not in self._fixed_arrays]
        self._operands = binding.operands if binding.operands is not None else operands
        indexed = [(node, index) for index, node in enumerate(self._operands) if node.uid in self.slots]
        self._passed = [(self.slots[node.uid], index) for node, index in indexed if node.uid not in self._fixed_arrays]
        self._copied = [
            (_copy_function(node.tensor_type), self._fixed_arrays[node.uid], i)
            for node, i in indexed
            if node.uid in self._fixed_arrays
        ]
        self.temporary = [
            *[self.slots[k.result.uid] for k in schedule.kernels if k.result.uid not in self.fixed_memory],
            *[self.slots[parameter.uid] for parameter in operands],
        ]
        """slots whose values are different objects in each run"""
        handed_out = [
            *zip(self._result_functions(schedule), [self.slots[root.uid] for root in schedule.roots], strict=True)
        ]
        self._results = handed_out[: len(handed_out) - binding.new_values]
        self._taken = [handed_out[copy.root] for copy in binding.copies]
        self._copies = [(_copy_function(copy.type), copy.old) for copy in binding.copies]
        self._new_values: list[Any] = []
        """new values of the last run of a step that ``update`` copies"""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kernels={len(self.planned.schedule.kernels)})"

    @functools.cached_property
    def notes(self) -> tuple[Note, ...]:
        """Remarks about how the program was built."""
        return notes(self.libraries)

    def _store_leaves(self, leaves: Sequence[Expr]) -> list[tuple[int, Runner]]:
        """Store the values of all leaves that have one; return (slot, runner) for the views among them."""
        views: list[tuple[int, Runner]] = []
        for slot, leaf in enumerate(leaves):
            if isinstance(leaf, Tensor):
                leaf.mark_used()
                fixed = self.values[slot] = self._fixed_arrays.get(leaf.uid, leaf.storage.array)
                if fixed is not leaf.storage.array:
                    np.copyto(fixed, leaf.storage.array)
            elif isinstance(leaf.operation, Parameter):
                self.values[slot] = self._fixed_arrays.get(leaf.uid)
            else:
                operands = self.planned.graph.inputs[leaf.uid]
                sources, types = [self.slots[o.uid] for o in operands], [o.type for o in operands]
                views.append((slot, single(leaf.operation, sources, leaf.type, None, types)))
                self.values[slot] = views[-1][1](self.values)
        return views

    def bind_leaves(self, tensors: Iterable[tuple[int | None, Tensor]], parts: dict[int, Array] | None = None) -> None:
        """Use tensors of another graph, and parts of absent tensors, in the leaves' slots until ``release_leaves``."""
        values = self.values
        if self._copies_tensors:
            for slot, tensor in tensors:
                if slot is not None:
                    np.copyto(values[slot], tensor.storage.array)
            return
        for slot, tensor in tensors:
            if slot is not None:
                values[slot] = tensor.storage.array
        # Views last, because they refer to the tensors' memory.
        for slot, run in self._views:
            values[slot] = parts[slot] if parts and slot in parts else run(values)

    def release_leaves(self, slots: Iterable[int | None]) -> None:
        """Drop the bound values and views of them, but keep tensors that rules introduced."""
        if self._copies_tensors:
            return
        for slot in (*slots, *[slot for slot, _ in self._views]):
            if slot is not None:
                self.values[slot] = None

    def _constant(self, node: Expr) -> bool:
        """Return whether a value is the same in every run, so that results derived from it are worth storing."""
        # A program without parameters runs only once, so a packed copy would waste memory.
        return bool(self.parameters) and is_constant(node, self.planned.graph)

    def _link(self, schedule: Schedule) -> list[tuple[Runner, int]]:
        """Build the runners of all kernels, and store in ``fixed_memory`` which results have fixed addresses."""
        drops = _last_reads(schedule)
        runners: list[tuple[Runner, int]] = []
        for index, (kernel, placement) in enumerate(zip(schedule.kernels, schedule.placements, strict=True)):
            slot, out = self.slots[kernel.result.uid], self._memory_of(kernel, placement)
            runner = self._runner(kernel, placement, out)
            # Constants, results in the arena and their views have the same address in every run, so kernels divide them
            # into blocks once. Every other value is a new array in each run.
            fixed = True
            if kernel.constant:
                runner = ComputeOnce(runner, slot, [self.slots[uid] for uid in drops.get(index, ())])
            elif out is not None:
                self.values[slot] = out
            elif (view := self._fixed_view(kernel, runner)) is not None:
                self.values[slot], runner = view.value, view
            else:
                fixed = False
            if fixed:
                self.fixed_memory.add(kernel.result.uid)
            runners.append((runner, slot))
        return runners

    def _memory_of(self, kernel: Kernel, placement: Placement) -> Any:
        """Return the memory into which a kernel writes its result in every run, or None."""
        out = self.memory.result(kernel, placement)
        if out is None and not (kernel.is_view or kernel.channels_last or isinstance(kernel.result.operation, Call)):
            out = self._fixed_arrays.get(kernel.result.uid)
        return out

    def _fixed_view(self, kernel: Kernel, runner: Runner) -> FixedView | None:
        """Return the runner for a view of fixed memory; None for any other kernel."""
        if not kernel.is_view or len(kernel.reads) != 1 or kernel.reads[0].uid not in self.fixed_memory:
            return None
        return fixed_view(runner, self.values, self.values[self.slots[kernel.reads[0].uid]])

    def _runner(self, kernel: Kernel, placement: Placement, out: Any) -> Runner:
        """Build the runner of a kernel: tiled, reducing, elementwise, call or single operation."""
        result = kernel.result
        type_ = result.type
        inputs = self.planned.graph.inputs
        if kernel.is_view:  # a loop of calls has thousands
            operands = inputs[result.uid]
            sources, types = [self.slots[operand.uid] for operand in operands], [operand.type for operand in operands]
            return single(result.operation, sources, type_, None, types)
        fixed_memory = all(read.uid in self.fixed_memory for read in kernel.reads)
        anchor = kernel.nodes[0]
        if anchor.operation.is_tileable and all(node.type.plain for node in (anchor, *inputs[anchor.uid])):
            packed_operand = anchor.operation.packed_operand
            constant = packed_operand is not None and self._constant(inputs[anchor.uid][packed_operand])
            code, library = kernel.code, self._library
            compiled = None
            if code is not None and library is not None and any(read is anchor for read in code.reads):
                compiled = NativeEpilogue(code, library, kernel.order)
            tiled = TiledEpilogue(
                kernel, lambda node: inputs[node.uid], self.slots, out, fixed_memory, constant, compiled
            )
            return tiled if compiled else self._compiled(kernel, out, fixed_memory, tiled)
        if kernel.blocks is not None and kernel.blocks.tiling is not None:
            scratch = self.memory.scratch(kernel, placement)
            reduction = FusedReduction(kernel, lambda node: inputs[node.uid], self.slots, out, scratch, fixed_memory)
            return self._compiled(kernel, out, fixed_memory, reduction)
        if kernel.blocks is not None and kernel.blocks.whole:
            sequence = InSequence(kernel, lambda node: inputs[node.uid], self.slots, out)
            return self._compiled(kernel, out, fixed_memory, sequence)
        if len(kernel.nodes) > 1 and type_.device is not cpu:
            return chain_on_device(kernel, lambda node: inputs[node.uid], self.slots, out)
        blocked = kernel if len(kernel.nodes) > 1 else in_blocks(kernel, inputs[result.uid])
        if blocked is not None:
            chain = ElementwiseChain(blocked, lambda node: inputs[node.uid], self.slots, out, fixed_memory)
            return self._compiled(kernel, out, fixed_memory, chain)
        sources = [self.slots[operand.uid] for operand in inputs[result.uid]]
        if isinstance(result.operation, Call):
            build = functools.partial(self._call_runner, kernel, placement, sources)
            if kernel.steps is None or self._library is None:
                return build()
            operands = inputs[result.uid]
            constants = {index for index, operand in enumerate(operands) if self._constant(operand)}
            return NativeSteps(kernel.steps, self._library, sources, constants, build)
        types = [operand.type for operand in inputs[result.uid]]
        alone = single(result.operation, sources, type_, out, types, fixed_memory)
        return self._compiled(kernel, out, fixed_memory, alone)

    def _call_runner(self, kernel: Kernel, placement: Placement, sources: list[int]) -> Runner:
        """Build the runner of a call, whose bodies are programs."""
        operation = kernel.result.operation
        assert isinstance(operation, Call)
        runs = [self._closed_body(kernel, placement, body) for body in operation.planned_bodies]
        return call_runner(operation, runs, sources, kernel.result.type)

    def _compiled(self, kernel: Kernel, out: Any, fixed_memory: bool, numpy: Runner) -> Runner:
        """Return the runner of a kernel's compiled function, or ``numpy`` if it has no code."""
        code = kernel.code
        if code is None or self._library is None:
            return numpy
        constants = {read.uid for read in code.reads if self._constant(read)}
        return NativeKernel(kernel, code, self._library, self.slots, out, fixed_memory, numpy, constants)

    @functools.cached_property
    def chains(self) -> ExecutionChains:
        """The execution chains and their dependencies."""
        uid_of = {slot: uid for uid, slot in self.slots.items()}
        drops = {
            index: [uid_of[slot] for slot in getattr(runner, "drops", ())]
            for index, (runner, _) in enumerate(self.runners)
        }
        schedule = self.planned.schedule
        return chains(schedule, dependencies(schedule, drops))

    def _result_functions(self, schedule: Schedule) -> list[Callable[[Any], Any]]:
        """Return, for each root, the function that protects its value from later runs."""
        parameters, new_values = {parameter.uid for parameter in self.parameters}, self.binding.new_values
        written_uids = self._fixed_arrays.keys() - parameters
        held_views, borrowed_views = (
            _with_views(schedule, self._fixed_arrays.keys()),
            _with_views(schedule, parameters | self._fixed_arrays.keys()),
        )
        results: list[Callable[[Any], Any]] = []
        for index, root in enumerate(schedule.roots):
            if root.uid in written_uids and index >= len(schedule.roots) - new_values:
                results.append(_unchanged)
            elif root.uid in written_uids and new_values and not root.tensor_type.shape:
                # A NumPy scalar is an immutable copy, created in a tenth of the time.
                results.append(_scalar)
            elif root.uid in held_views and root.type.device is not cpu:
                results.append(functools.partial(copied, root.tensor_type))
            else:
                results.append(functools.partial(read_only, copied=root.uid in borrowed_views))
        return results

    def bind(self, inputs: Mapping[Expr, Any]) -> None:
        """Set the values of parameters; raise StateError for a missing value, OperandError for an unsuitable one."""
        values_by_uid = {node.uid: value for node, value in inputs.items()}
        for node in inputs:
            if not isinstance(node.operation, Parameter):
                raise OperandError(
                    f"a value for {node!r}",
                    rule="only parameters can be given values for a run",
                    fix="plan.eval({parameter: value})",
                )
        self.put([self._value_of(operand, values_by_uid) for operand in self._operands])

    def put(self, operands: Sequence[Any]) -> None:
        """Set the values of the binding's operands, in order, without checks."""
        values = self.values
        for slot, index in self._passed:
            values[slot] = operands[index]
        for write, memory, index in self._copied:
            write(memory, operands[index])

    def _value_of(self, parameter: Expr, values: Mapping[int, Any]) -> Any:
        """Look up a parameter's value by uid, and return it in the parameter's dtype."""
        if parameter.uid not in values:
            raise StateError(
                f"the parameter {parameter.operation.label!r} ({parameter.type}) has no value",
                rule="every parameter that a result depends on must have a value",
                fix="evaluate a call of the function, or give the net all its inputs",
            )
        return parameter_value(parameter, values[parameter.uid])

    def wait_for_devices(self, wait: bool) -> None:
        """Set whether kernels on devices other than cpu end when their work is finished, or when it is started."""
        if self._devices and wait is not self.waits:
            other_runners = self._other_runners or finishing(self.runners, self.planned.schedule)
            self.runners, self._other_runners, self.waits = other_runners, self.runners, wait

    def clock(self) -> int:
        """Return the time in ns of a clock that stopped while the program waited for the compiler."""
        return perf_counter_ns() - sum([each.waited for each in self.libraries])

    def blank_timing(self) -> Timing:
        """Return the times of a run in which no kernel has run yet."""
        count = len(self.runners)
        return Timing([0] * count, [0] * count, [0] * count)

    def run_kernel(self, index: int, timing: Timing, observer: Observer | None = None, thread: int = 0) -> None:
        """Run one kernel and record its times; raise RunError with its operation and source line."""
        try:
            if observer is not None:
                observer.before_kernel(index)
            runner, slot = self.runners[index]
            timing.threads[index], timing.began[index] = thread, perf_counter_ns()
            self.values[slot] = runner(self.values)
            timing.ended[index] = perf_counter_ns()
            if observer is not None:
                observer.after_kernel(index)
        except RunError:  # the error already names an operation inside a call
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
        """Run the kernels of a chain in sequence; return whether all of them ran.

        ``begins(index)`` is called before each kernel; if it returns False, the chain stops. Raises RunError like
        ``run_kernel``.
        """
        for index in self.chains.kernels[chain]:
            if not begins(index):
                return False
            self.run_kernel(index, timing, observer, thread)
        return True

    def bind_run(self) -> None:
        """Bind the calls for later runs, if the previous run was on the same thread."""
        memory = scratch_memory()
        if self._last_scratch is memory and (self.bound is None or self.bound.kernels_bound):
            bound = self.bound = self._bound_run(self.runners)
            others = [self.planned.schedule.kernels[index] for index in bound.not_compiled]
            self.single_threaded = self._is_shared or self._has_small_products(others)
        self._last_scratch = memory

    def _has_small_products(self, kernels: Sequence[Kernel]) -> bool:
        return not self._devices and has_small_products(kernels)

    def _bound_run(self, runners: Sequence[tuple[Runner, int]]) -> BoundRun:
        return BoundRun(runners, self.values, None if self._library is None else self._library.run_calls)

    def take(self) -> list[Any]:
        """Return the results of the run, without new values of parameters, as read-only arrays.

        Values outside planned memory are dropped, except those for updates.
        """
        for device in self._devices:
            finish(device)
        values = self.values
        results = [hand_out(values[slot]) for hand_out, slot in self._results]
        if self.binding.new_values:
            self._new_values = [hand_out(values[slot]) for hand_out, slot in self._taken]
        else:
            self.forget()
        return results

    def forget(self) -> None:
        """Drop the values of a run that are not in planned memory."""
        values = self.values
        for slot in self.temporary:
            values[slot] = None

    def update(self) -> None:
        """Make the new values of the last run the values of the parameters.

        Raises RunError if memory runs out, which leaves the values unusable; nothing else can fail.
        """
        bound, index = self._bound_updates, 0
        try:
            if bound is not None and bound.is_of(self._updates):
                with np.errstate(all="ignore") if bound.not_compiled else nullcontext():
                    bound.run()
            else:
                with np.errstate(all="ignore"):
                    for runner, slot in self._updates:
                        self.values[slot] = runner(self.values)
                        index += 1
                self._bound_updates = self._bound_run(self._updates)
        except Exception as error:
            failed_step = bound.take_failed() if bound is not None else None
            index, operation = failed_step or (index, None)
            failed = failure(self._full_plan, len(self.runners) + index, self._updates[index][0], error, operation)
            raise RunError(
                f"an update in place: {failed.given}",
                rule="all parameters must be updated, and some were before this one failed",
                fix='module.restore("run.npz"), a checkpoint',
            ) from error
        for (write, old), new in zip(self._copies, self._new_values, strict=True):
            write(old, new)
        self._new_values = []
        self.forget()

    def _closed_body(self, kernel: Kernel, placement: Placement, body: Body) -> BodyFunction:
        """Return a function that runs the body of a call in this program's memory; the body is planned once."""
        planned, operands = plan_closed(body, self._full_plan.options)
        # Calls of a body at one offset share a program, since they never run in parallel (kernel_dependencies.py).
        key = id(body), placement.scratch_offset
        if key not in self._closed:
            with one_deeper(f"a program of {body.name}"):
                binding = Binding(operands, within=self.memory.scratch(kernel, placement))
                self._closed[key] = Program(planned, binding)
        return functools.partial(self._closed[key]._run_body, body.name)

    def _run_body(self, name: str, operands: Sequence[Any]) -> list[Any]:
        """Run this program as the body of a call, which has a single time and no observer."""
        values, index = self.values, 0
        self.put(operands)
        try:
            with one_deeper(f"a run of {name}"):
                for runner, slot in self.runners:
                    values[slot] = runner(values)
                    index += 1
            return self.take()
        except RunError:
            raise
        except Exception as error:
            raise failure(self.planned, index, self.runners[index][0], error) from error
        finally:
            self.forget()


def _without_updates(planned: Plan, count: int) -> Plan:
    """Return the plan without its last ``count`` kernels, but with the operands of updates as results."""
    schedule = planned.schedule
    # The operands of updates are results, so that workers send them to this process.
    operands = [node for kernel in schedule.kernels[count:] for node in kernel.reads]
    updated = {kernel.result.uid for kernel in schedule.kernels[count:]}
    roots = [root for root in dict.fromkeys([*schedule.roots, *operands]) if root.uid not in updated]
    first = replace(
        schedule,
        roots=tuple(roots),
        kernels=schedule.kernels[:count],
        picks=schedule.picks[:count],
        levels=schedule.levels[:count],
        chains=schedule.chains[:count],
        runs_until=schedule.runs_until[:count],
        placements=schedule.placements[:count],
    )
    return replace(planned, schedule=first)


def _last_reads(schedule: Schedule) -> dict[int, list[int]]:
    """Return a dict from the index of each constant kernel to the uids of the constants that it is the last to read."""
    last: dict[int, int] = {}
    for index, kernel in enumerate(schedule.kernels):
        if kernel.constant:
            last[kernel.result.uid] = -1
        for read in kernel.reads:
            if kernel.constant and read.uid in last:
                last[read.uid] = index
            else:
                last.pop(read.uid, None)
    drops: dict[int, list[int]] = {}
    for uid, index in last.items():
        drops.setdefault(index, []).append(uid)
    return drops


def _with_views(schedule: Schedule, uids: AbstractSet[int]) -> set[int]:
    """Return ``uids`` and the uids of all direct and indirect views of these values."""
    result = {*uids}
    for kernel in schedule.kernels:
        if kernel.is_view and kernel.reads and kernel.reads[0].uid in result:
            result.add(kernel.result.uid)
    return result


def _copy_function(type_: TensorType) -> Callable[[Any, Any], None]:
    return np.copyto if type_.device is cpu else functools.partial(fill, type_)


def _unchanged(value: Any) -> Any:
    return value


def _scalar(value: Any) -> Any:
    return value[()]


class BoundRun:
    """Bound calls of all kernels in schedule order, for the thread that creates them.

    It is created right after a run, when ``values`` contains the results. Results of bound kernels stay there, at fixed
    addresses. ``run_calls`` is the C function that makes calls of compiled kernels in sequence.
    """

    def __init__(
        self, runners: Sequence[tuple[Runner, int]], values: Values, run_calls: Function | None = None
    ) -> None:
        self._failed: tuple[int, Expr | None] | None = None
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
        self._steps = _joined(self._kernels, run_calls)
        self.not_compiled = [
            index
            for index, steps in enumerate(self._kernels)
            if not all(isinstance(call, NativeCall) for call, _, _ in steps)
        ]
        """indices of kernels that are no C functions"""
        # Registers are in the thread's scratch memory, at the same offsets in each run.
        self._memory = scratch_memory()

    def is_of(self, runners: Sequence[tuple[Runner, int]]) -> bool:
        """Return whether this thread may use this instance: neither ``runners`` nor its scratch memory has changed."""
        return self._runners is runners and self._memory is scratch_memory()

    def take_failed(self) -> tuple[int, Expr | None] | None:
        """Return and clear the index of the kernel that raised an error, and its failed operation.

        The operation is None if the kernel itself stores it.
        """
        failed, self._failed = self._failed, None
        return failed

    def run_timed(self, times: list[int]) -> None:
        """Run all kernels; append to ``times`` the start time of the run, and then the end time of each kernel."""
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
            self._failed = len(times) - 1, None if step is None else step[2]
            raise

    def run(self) -> None:
        """Run all kernels without measuring times, and consecutive compiled kernels by one call."""
        index, step = 0, None
        try:
            for index, step in self._steps:  # noqa: B007 - read if a step fails
                call, target, _ = step
                value = call()
                if value is not target and target is not None:
                    copy_into(target, value)
        except Exception:
            self._failed = index, None if step is None else step[2]
            raise


_JOINED = 32
"""maximum number of compiled kernels that one call runs, since Python handles interrupts only between calls"""


def _joined(kernels: Sequence[list[BoundStep]], run_calls: Function | None) -> list[tuple[int, BoundStep]]:
    """Return (index of the kernel, step) for all steps; consecutive calls of C functions become one step."""
    steps: list[tuple[int, BoundStep]] = []
    calls: list[NativeCall] = []
    for index, kernel in enumerate(kernels):
        for step in kernel:
            call = step[0]
            if run_calls is None or not isinstance(call, NativeCall):
                calls = []
                steps.append((index, step))
            elif calls and len(calls) < _JOINED:
                calls.append(call)
                steps[-1] = steps[-1][0], (joined(run_calls, calls), None, None)
            else:
                calls = [call]
                steps.append((index, step))
    return steps


def _store(runner: Runner, values: Values, slot: int) -> None:
    values[slot] = runner(values)
