"""From scheduled kernels to functions that run: each reads a table of values, writes its result into it."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Item
from explorer.core.ir.kernel_registry import kernel_of
from explorer.core.ir.operation import Operation
from explorer.core.ir.tiles import scratch
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
"""a step of a kernel: what computes it, the places that it reads and writes, and its node"""


def copy_into(out: Any, made: Any) -> Any:
    """``out`` with the result in it, also where a kernel returned other memory than it was given."""
    if made is out or made is None:
        return out
    if isinstance(out, tuple):
        return tuple([copy_into(part, other) for part, other in zip(out, made, strict=True)])
    np.copyto(out, made, casting="same_kind")
    return out


def single(operation: Operation, sources: list[int], kind: Any, out: Any, types: Sequence[AnyType] = ()) -> Runner:
    """One operation; ``out`` is the planned memory, None for a view or for fresh memory at each run."""
    if isinstance(operation, Item):
        (source,), index = sources, operation.index
        return lambda values: values[source][index]
    if operation.changes_device:
        return device_copy(sources[0], types[0].device, kind, out)
    kernel = kernel_of(operation, kind.device, kind, *types)
    if kind.device is not cpu:
        return run_on_device(operation, kernel, sources, kind)
    if operation.view:
        if len(sources) == 1:
            (only,) = sources
            return lambda values: kernel(None, values[only])
        return lambda values: kernel(None, *[values[source] for source in sources])

    def run(values: Values) -> Any:
        memory = allocate(kind) if out is None else out
        made = kernel(memory, *[values[source] for source in sources])
        return memory if made is memory else copy_into(memory, made)

    def run_one(values: Values) -> Any:
        made = kernel(out, values[first])
        return out if made is out else copy_into(out, made)

    def run_two(values: Values) -> Any:
        made = kernel(out, values[first], values[second])
        return out if made is out else copy_into(out, made)

    if out is None or len(sources) not in (1, 2):
        return run
    first, second = sources[0], sources[-1]
    return run_one if len(sources) == 1 else run_two


class ComputeOnce:
    """A kernel whose result every run finds the same: it runs once, and the table of values keeps its result."""

    def __init__(self, runner: Runner, slot: int) -> None:
        self._runner: Runner | None = runner
        self._slot = slot
        self.drops: list[int] = []
        """slots that nobody reads after this"""

    def __call__(self, values: Values) -> Any:
        """The result, computed at the first call."""
        if self._runner is not None:
            values[self._slot] = self._runner(values)
            self._runner = None
            for slot in self.drops:
                values[slot] = None
        return values[self._slot]

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, where the kernel tells."""
        return getattr(self._runner, "failed", None)


def run_all(tasks: Sequence[Callable[[], None]], shared: bool) -> None:
    """Run all tasks, on workers too where that is worth it."""
    if shared and len(tasks) > 1:
        share(tasks)
    else:
        for task in tasks:
            task()


class Steps:
    """The steps of a kernel over its blocks: registers lie between them. ``last`` runs in the last one's place."""

    def __init__(
        self, blocks: Blocks, reads: Sequence[Expr], operands: Operands, last: Callable[..., Any] | None = None
    ) -> None:
        self.registers = blocks.registers
        self.failed: Expr | None = None
        """the operation that raised, in the last run"""
        used = {operand.uid for step in blocks.steps for operand in operands(step)}
        self.reads = [read for read in reads if read.uid in used]
        held = {read.uid: place for place, read in enumerate(self.reads)}
        if blocks.anchor is not None:
            held[blocks.anchor.uid] = len(self.reads)
        result = len(held)  # places are those of the inputs, then the result's, then the registers
        self._rooms: dict[tuple[Shape, tuple[int, ...]], RegisterFile] = {}
        self._program: list[_Step] = []
        for step, register in zip(blocks.steps, blocks.targets, strict=True):
            sources = [held[operand.uid] for operand in operands(step)]
            held[step.uid] = target = result if register == RESULT else result + 1 + register
            self._program.append((kernel_of(step.operation, step.device), sources, target, step))
        if last is not None:
            self._program[-1] = (last, *self._program[-1][1:])

    def bind(self, inputs: Sequence[Array], out: Array) -> Callable[[], None]:
        """What computes ``out`` from arrays that broadcast to it."""
        if not self.registers:
            return functools.partial(self._run, self._program, [*inputs, out])
        axes = (0,) if out.ndim == 1 else tuple(sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True))
        return self.over(inputs, out, self.register_file(out.shape, axes))

    def over(self, inputs: Sequence[Array], out: Array, register_file: RegisterFile) -> Callable[[], None]:
        """What computes ``out`` from arrays that broadcast to the shape of a ``room``."""
        return functools.partial(self._run_in, [*inputs, out], register_file)

    def over_boxes(
        self, inputs: Sequence[Sequence[Array]], out: Array, register_files: BoxRegisterFiles
    ) -> Callable[[], None]:
        """What computes ``out`` from one run of elements, made in the boxes of a ``room`` from the inputs of each."""
        return functools.partial(self._run_in_boxes, inputs, out, register_files)

    def run(self, places: list[Array]) -> None:
        """Compute the result from what lies in the places: the inputs, the result, the registers."""
        self._run(self._program, places)

    def _run_in(self, places: list[Array], register_file: RegisterFile) -> None:
        self._run(self._program, places + register_file())

    def _run_in_boxes(self, inputs: Sequence[Sequence[Array]], out: Array, register_files: BoxRegisterFiles) -> None:
        runs, *boxes = register_files()
        for given, registers in zip(inputs, boxes, strict=True):
            self._run(self._program[:-1], [*given, out, *registers])
        self._run(self._program[-1:], [*inputs[0], out, *runs])

    def _run(self, program: Sequence[_Step], places: list[Array]) -> None:
        step = program[0]
        try:
            for step in program:
                kernel, sources, target, _ = step
                into = places[target]
                if len(sources) == 1:  # most have one or two operands, and are short where arrays are small
                    made = kernel(into, places[sources[0]])
                elif len(sources) == 2:
                    made = kernel(into, places[sources[0]], places[sources[1]])
                else:
                    made = kernel(into, *[places[source] for source in sources])
                if made is not into:
                    copy_into(into, made)
        except Exception:
            self.failed = step[3]
            raise

    def register_file(self, shape: Shape, order: tuple[int, ...]) -> RegisterFile:
        """What gives a thread's registers, which lie in memory by ``order``, so that one loop runs through all."""
        found = self._rooms.get((shape, order))
        if found is None:
            found = self._rooms[shape, order] = self._allocate_registers(shape, order)
        return found

    def _allocate_registers(self, shape: Shape, order: tuple[int, ...]) -> RegisterFile:
        laid, back = tuple([shape[axis] for axis in order]), np.argsort(order)
        wanted = [(laid, dtype) for dtype in self.registers]
        return functools.partial(
            scratch,
            ("registers", laid, *order, *self.registers),
            wanted,
            lambda *registers: [register.transpose(back) for register in registers],
        )

    def box_register_files(self, shapes: Sequence[Shape], order: tuple[int, ...]) -> BoxRegisterFiles:
        """What gives a thread's registers, each one run of memory, and for each box the parts of all that it takes."""
        ends = [*itertools.accumulate([math.prod(shape) for shape in shapes], initial=0)]
        back = np.argsort(order)

        def build(*runs: Array) -> list[list[Array]]:
            found = [[*runs]]
            for shape, (start, stop) in zip(shapes, itertools.pairwise(ends), strict=True):
                laid = [shape[axis] for axis in order]
                found.append([run[start:stop].reshape(laid).transpose(back) for run in runs])
            return found

        wanted = [((ends[-1],), dtype) for dtype in self.registers]
        return functools.partial(scratch, ("runs", *shapes, *order, *self.registers), wanted, build)
