"""Runners: functions that run scheduled kernels. A runner reads operands from a table of values and returns its result.

A program (run/execution/program.py) is a list of runners. Python calls dominate a loop over small kernels, so each
runner is specialized when it is built: for the slots that it reads, its memory, and its number of operands.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr, Operation, kernel_of
from explorer.core.ir.function import Item
from explorer.core.ir.tiles import scratch, scratch_memory
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import AnyType, Array, Shape
from explorer.plan.schedule.blocked_kernel import RESULT, Blocks
from explorer.run.runtime.device_runners import device_copy, run_on_device
from explorer.run.runtime.memory import allocate
from explorer.run.runtime.thread_pool import share

Values: TypeAlias = list[Any]
Runner: TypeAlias = Callable[[Values], Any]
Operands: TypeAlias = Callable[[Expr], tuple[Expr, ...]]
RegisterFile: TypeAlias = Callable[[], list[Array]]
BoxRegisterFiles: TypeAlias = Callable[[], list[list[Array]]]
_Step: TypeAlias = tuple[Callable[..., Any], list[int], int, Expr]
"""step of a kernel: its function, the slots that it reads, the slot that it writes, and its node"""
BoundStep: TypeAlias = tuple[Callable[[], Any], Any, Expr | None]
"""bound step: its function, the array to which its result must be copied (None: it is there already), and its node"""


def copy_into(out: Any, result: Any) -> Any:
    """Return ``out`` with the result, copying it if the kernel returned other memory."""
    if result is out or result is None:
        return out
    if isinstance(out, tuple):
        return tuple([copy_into(part, part_result) for part, part_result in zip(out, result, strict=True)])
    np.copyto(out, result, casting="same_kind")
    return out


def single(
    operation: Operation,
    sources: list[int],
    result_type: Any,
    out: Any,
    types: Sequence[AnyType] = (),
    fixed_memory: bool = False,
) -> Runner:
    """Build the runner of one operation.

    ``out`` is planned memory, or None for a view or new memory. With ``fixed_memory``, operands have fixed addresses.
    """
    if isinstance(operation, Item):
        (source,), index = sources, operation.index
        return lambda values: values[source][index]
    if operation.changes_device:
        return device_copy(sources[0], types[0].device, result_type, out)
    kernel = kernel_of(operation, result_type.device, result_type, *types)
    if result_type.device is not cpu:
        return run_on_device(operation, kernel, sources, result_type, out)
    if operation.view and out is None:
        if len(sources) == 1:
            (only,) = sources
            return lambda values: kernel(None, values[only])
        return lambda values: kernel(None, *[values[source] for source in sources])

    if fixed_memory and out is not None and kernel == operation.kernel:
        return BoundOperation(operation, sources, out)

    def run(values: Values) -> Any:
        memory = allocate(result_type) if out is None else out
        result = kernel(memory, *[values[source] for source in sources])
        return memory if result is memory else copy_into(memory, result)

    def run_one(values: Values) -> Any:
        result = kernel(out, values[first])
        return out if result is out else copy_into(out, result)

    def run_two(values: Values) -> Any:
        result = kernel(out, values[first], values[second])
        return out if result is out else copy_into(out, result)

    # Most kernels have one or two operands and planned memory; these functions build no list in each run.
    if out is None or len(sources) not in (1, 2):
        return run
    first, second = sources[0], sources[-1]
    return run_one if len(sources) == 1 else run_two


class BoundOperation:
    """Operation whose operands and result have fixed addresses after the first run."""

    def __init__(self, operation: Operation, sources: list[int], out: Any) -> None:
        self._operation, self._sources, self._out = operation, sources, out
        self._call: Callable[[], Any] | None = None

    def __call__(self, values: Values) -> Any:
        """Compute the result, in its memory."""
        # Bound in the first call, when the table contains the operands.
        if self._call is None:
            self._call = self._operation.bind_kernel(self._out, *[values[source] for source in self._sources])
        result = self._call()
        return self._out if result is self._out else copy_into(self._out, result)

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the operation as a bound step; None before the first run."""
        return None if self._call is None else [(self._call, self._out, None)]


class ComputeOnce:
    """Kernel that runs once, because its result is the same in every run; its slot keeps the result."""

    def __init__(self, runner: Runner, slot: int, drops: Sequence[int] = ()) -> None:
        self._runner: Runner | None = runner
        self._slot = slot
        self.drops = drops
        """slots that no later kernel reads, which are cleared"""

    def __call__(self, values: Values) -> Any:
        """Return the result; compute it at the first call."""
        if self._runner is not None:
            values[self._slot] = self._runner(values)
            self._runner = None  # only now, so that a failed kernel is tried again in the next run
            for slot in self.drops:
                values[slot] = None
        return values[self._slot]

    def bound_steps(self) -> list[BoundStep] | None:
        """Return an empty list once the result is computed; None before."""
        return [] if self._runner is None else None

    @property
    def failed(self) -> Expr | None:
        """The operation that raised an error, if the kernel stores it."""
        return getattr(self._runner, "failed", None)


def run_all(tasks: Sequence[Callable[[], None]], shared: bool) -> None:
    """Run all tasks; if ``shared`` is true, worker threads help."""
    if shared and len(tasks) > 1:
        share(tasks)
    else:
        for task in tasks:
            task()


class Steps:
    """Steps of a kernel over its blocks, with registers for values between steps.

    ``last`` replaces the last step's function. With ``fixed_memory``, the returned functions run repeatedly on the same
    arrays.
    """

    def __init__(
        self,
        blocks: Blocks,
        reads: Sequence[Expr],
        operands: Operands,
        last: Callable[..., Any] | None = None,
        fixed_memory: bool = False,
    ) -> None:
        self.registers = blocks.registers
        self._fixed_memory = fixed_memory
        self.failed: Expr | None = None
        """the operation that raised an error in the last run"""
        # No step reads the operands of the kernel's product.
        used = {operand.uid for step in blocks.steps for operand in operands(step)}
        self.reads = [read for read in reads if read.uid in used]
        index_of = {read.uid: index for index, read in enumerate(self.reads)}
        if blocks.anchor is not None:
            index_of[blocks.anchor.uid] = len(self.reads)
        result = len(index_of)  # order of slots: inputs, result, registers
        # Equal blocks of a kernel share one function, and therefore the registers of a thread.
        self._register_files: dict[tuple[Shape, tuple[int, ...]], RegisterFile] = {}
        self._program: list[_Step] = []
        for step, register in zip(blocks.steps, blocks.targets, strict=True):
            sources = [index_of[operand.uid] for operand in operands(step)]
            index_of[step.uid] = target = result if register == RESULT else result + 1 + register
            types = [node.type for node in (step, *operands(step))]
            self._program.append((kernel_of(step.operation, step.device, *types), sources, target, step))
        if last is not None:
            self._program[-1] = (last, *self._program[-1][1:])

    def bind(self, inputs: Sequence[Array], out: Array) -> Callable[[], None]:
        """Return a function that computes ``out`` from ``inputs``, which are broadcast to its shape."""
        if not self.registers:
            if self._fixed_memory:
                return BoundBlock(self, [*inputs, out], list)
            return functools.partial(self._run, self._program, [*inputs, out])
        # Registers have the result's memory layout, so NumPy runs a single loop over all elements.
        axes = (0,) if out.ndim == 1 else tuple(sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True))
        return self.over(inputs, out, self.register_file(out.shape, axes))

    def over(self, inputs: Sequence[Array], out: Array, register_file: RegisterFile) -> Callable[[], None]:
        """Return a function that computes ``out`` from ``inputs``, which are broadcast to the registers' shape."""
        if self._fixed_memory:
            return BoundBlock(self, [*inputs, out], register_file)
        return functools.partial(self._run_in, [*inputs, out], register_file)

    def over_boxes(
        self, inputs: Sequence[Sequence[Array]], out: Array, register_files: BoxRegisterFiles
    ) -> Callable[[], None]:
        """Return a function that computes ``out`` from ``inputs``, which contains the input arrays of each box."""
        return functools.partial(self._run_in_boxes, inputs, out, register_files)

    def run(self, arrays: list[Array]) -> None:
        """Compute the result; ``arrays`` are the inputs, the result and the registers."""
        self._run(self._program, arrays)

    def bound(self, arrays: list[Array]) -> list[BoundStep]:
        """Return the steps as functions without arguments; ``arrays`` are the inputs, the result and the registers."""
        bound: list[BoundStep] = []
        for kernel, sources, target, node in self._program:
            out, operands = arrays[target], [arrays[source] for source in sources]
            # A user's kernel for cpu has no bound form, so it is called with its arrays each time.
            is_builtin = kernel == node.operation.kernel
            call = (
                node.operation.bind_kernel(out, *operands) if is_builtin else functools.partial(kernel, out, *operands)
            )
            bound.append((call, out, node))
        return bound

    def run_bound(self, bound: list[BoundStep]) -> None:
        """Call bound steps in sequence; if a step fails, store its operation in ``failed``."""
        step = bound[0]
        try:
            for step in bound:
                call, target, _ = step
                value = call()
                if value is not target:
                    copy_into(target, value)
        except Exception:
            self.failed = step[2]
            raise

    def _run_in(self, arrays: list[Array], register_file: RegisterFile) -> None:
        self._run(self._program, arrays + register_file())

    def _run_in_boxes(self, inputs: Sequence[Sequence[Array]], out: Array, register_files: BoxRegisterFiles) -> None:
        # Elementwise steps run box by box, but the reduction runs over all boxes together, so its summation order does
        # not depend on them.
        runs, *boxes = register_files()
        for box_inputs, registers in zip(inputs, boxes, strict=True):
            self._run(self._program[:-1], [*box_inputs, out, *registers])
        self._run(self._program[-1:], [*inputs[0], out, *runs])

    def _run(self, program: Sequence[_Step], arrays: list[Array]) -> None:
        """Call the steps of a block in sequence; if a step fails, store its operation in ``failed``."""
        step = program[0]
        try:
            for step in program:
                kernel, sources, target, _ = step
                target_array = arrays[target]
                if len(sources) == 1:  # no list for one or two operands: most kernels have so few, and many are short
                    value = kernel(target_array, arrays[sources[0]])
                elif len(sources) == 2:
                    value = kernel(target_array, arrays[sources[0]], arrays[sources[1]])
                else:
                    value = kernel(target_array, *[arrays[source] for source in sources])
                if value is not target_array:
                    copy_into(target_array, value)
        except Exception:
            self.failed = step[3]
            raise

    def register_file(self, shape: Shape, order: tuple[int, ...]) -> RegisterFile:
        """Return a function that returns a thread's registers, in the result's memory order."""
        registers = self._register_files.get((shape, order))
        if registers is None:
            registers = self._register_files[shape, order] = self._allocate_registers(shape, order)
        return registers

    def _allocate_registers(self, shape: Shape, order: tuple[int, ...]) -> RegisterFile:
        register_shape = tuple([shape[axis] for axis in order])
        inverse_order = sorted(range(len(order)), key=order.__getitem__)
        specs = [(register_shape, dtype) for dtype in self.registers]
        return functools.partial(
            scratch,
            ("registers", register_shape, *order, *self.registers),
            specs,
            lambda *registers: [register.transpose(inverse_order) for register in registers],
        )

    def box_register_files(self, shapes: Sequence[Shape], order: tuple[int, ...]) -> BoxRegisterFiles:
        """Return a function that returns a thread's registers as contiguous memory, and each box's part of it."""
        offsets = [*itertools.accumulate([math.prod(shape) for shape in shapes], initial=0)]
        inverse_order = np.argsort(order)

        def build(*runs: Array) -> list[list[Array]]:
            runs_and_boxes = [[*runs]]
            for shape, (start, stop) in zip(shapes, itertools.pairwise(offsets), strict=True):
                box_shape = [shape[axis] for axis in order]
                runs_and_boxes.append([run[start:stop].reshape(box_shape).transpose(inverse_order) for run in runs])
            return runs_and_boxes

        specs = [((offsets[-1],), dtype) for dtype in self.registers]
        return functools.partial(scratch, ("runs", *shapes, *order, *self.registers), specs, build)


class BoundBlock:
    """Steps over a single block at fixed addresses, bound to the registers of the running thread."""

    def __init__(self, steps: Steps, arrays: list[Array], register_file: RegisterFile) -> None:
        self._steps, self._arrays, self._register_file = steps, arrays, register_file
        self._memory: Array | None = None
        self._bound: list[BoundStep] = []

    def __call__(self) -> None:
        """Compute the block."""
        self._steps.run_bound(self.bound_steps())

    def bound_steps(self) -> list[BoundStep]:
        """Return the steps, bound to the registers of this thread."""
        # registers are views of the thread's scratch memory, and are replaced together with it
        if self._memory is not scratch_memory():
            self._bound = self._steps.bound(self._arrays + self._register_file())
            self._memory = scratch_memory()
        return self._bound
