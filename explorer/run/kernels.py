"""From scheduled kernels to functions that run: each reads a table of values, writes its result into it."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from explorer.core.expr import Expr
from explorer.core.function import Item
from explorer.core.kernels import kernel_of
from explorer.core.operation import Operation
from explorer.core.pieces import Index, cut, scratch
from explorer.core.types import Array, TensorType, TupleType
from explorer.plan.blocks import BLOCK_BYTES, RESULT, Blocks
from explorer.plan.schedule import Kernel
from explorer.run.memory import allocate
from explorer.run.workers import share, worth_sharing

Values: TypeAlias = list[Any]
Runner: TypeAlias = Callable[[Values], Any]
Operands: TypeAlias = Callable[[Expr], tuple[Expr, ...]]


def settle(out: Any, made: Any) -> Any:
    """``out`` with the result in it, also where a kernel returned other memory than it was given."""
    if made is out or made is None:
        return out
    if isinstance(out, tuple):
        return tuple([settle(part, other) for part, other in zip(out, made, strict=True)])
    np.copyto(out, made, casting="same_kind")
    return out


def single(operation: Operation, sources: list[int], kind: Any, out: Any) -> Runner:
    """One operation; ``out`` is the planned memory, None for a view or for fresh memory at each run."""
    kernel = kernel_of(operation, device_of(kind))
    if isinstance(operation, Item):
        (source,), index = sources, operation.index
        return lambda values: values[source][index]
    if operation.view:
        if len(sources) == 1:
            (only,) = sources
            return lambda values: kernel(None, values[only])
        return lambda values: kernel(None, *[values[source] for source in sources])

    def run(values: Values) -> Any:
        memory = allocate(kind) if out is None else out
        made = kernel(memory, *[values[source] for source in sources])
        return memory if made is memory else settle(memory, made)

    def run_one(values: Values) -> Any:
        made = kernel(out, values[first])
        return out if made is out else settle(out, made)

    def run_two(values: Values) -> Any:
        made = kernel(out, values[first], values[second])
        return out if made is out else settle(out, made)

    if out is None or len(sources) not in (1, 2):
        return run
    first, second = sources[0], sources[-1]
    return run_one if len(sources) == 1 else run_two


def device_of(kind: Any) -> Any:
    """The device of a type; of its first part for several outputs."""
    return kind.parts[0].device if isinstance(kind, TupleType) else kind.device


class Once:
    """A kernel whose result every run finds the same: it runs once and keeps it."""

    def __init__(self, runner: Runner) -> None:
        self._runner: Runner | None = runner
        self._value: Any = None

    def __call__(self, values: Values) -> Any:
        """The result, computed at the first call."""
        if self._runner is not None:
            self._value = self._runner(values)
            self._runner = None
        return self._value

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, where the kernel tells."""
        return getattr(self._runner, "failed", None)


class LastingView:
    """A view of memory that is the same at every run: made once, unless it had to be a copy."""

    def __init__(self, runner: Runner, source: int) -> None:
        self._runner, self._slot = runner, source
        self._source: Any = None
        self._value: Any = None

    def __call__(self, values: Values) -> Any:
        """The view."""
        source = values[self._slot]
        if self._source is source is not None:
            return self._value
        value = self._runner(values)
        if isinstance(source, np.ndarray) and np.may_share_memory(source, value):
            self._source, self._value = source, value
        return value


class _Steps:
    """The elementwise steps of a kernel: registers lie between them."""

    def __init__(self, blocks: Blocks, reads: Sequence[Expr], operands: Operands) -> None:
        self.registers = blocks.registers
        self.failed: Expr | None = None
        """the operation that raised, in the last run"""
        used = {operand.uid for step in blocks.steps for operand in operands(step)}
        self.reads = [read for read in reads if read.uid in used]
        held = {read.uid: place for place, read in enumerate(self.reads)}
        if blocks.anchor is not None:
            held[blocks.anchor.uid] = len(self.reads)
        result = len(held)  # places are those of the inputs, then the result's, then the registers
        self._program: list[tuple[Callable[..., Any], list[int], int, Expr]] = []
        for step, register in zip(blocks.steps, blocks.targets, strict=True):
            sources = [held[operand.uid] for operand in operands(step)]
            held[step.uid] = target = result if register == RESULT else result + 1 + register
            self._program.append((kernel_of(step.operation, step.device), sources, target, step))

    def bind(self, inputs: Sequence[Array], out: Array) -> Callable[[], None]:
        """What computes ``out`` from arrays that broadcast to it."""
        places = [*inputs, out]
        return functools.partial(self._run, places, self._room(out) if self.registers else None)

    def _run(self, places: list[Array], room: Callable[[], list[Array]] | None) -> None:
        if room is not None:
            places = places + room()
        step = self._program[0]
        try:
            for step in self._program:
                kernel, sources, target, _ = step
                into = places[target]
                made = kernel(into, *[places[source] for source in sources])
                if made is not into:
                    settle(into, made)
        except Exception:
            self.failed = step[3]
            raise

    def _room(self, out: Array) -> Callable[[], list[Array]]:
        """What gives a thread's registers, of the result's order in memory, so that one loop runs through all."""
        axes = sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True)
        shape, back = tuple([out.shape[axis] for axis in axes]), np.argsort(axes)
        wanted = [(shape, dtype) for dtype in self.registers]
        return functools.partial(
            scratch,
            ("registers", shape, *axes, *self.registers),
            wanted,
            lambda *registers: [register.transpose(back) for register in registers],
        )


class Chain:
    """Elementwise operations that run block by block over the result."""

    def __init__(self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Array | None) -> None:
        kind = kernel.result.type
        assert isinstance(kind, TensorType)
        assert kernel.blocks is not None
        self._kind, self._out, self._last = kind, out, kernel.channels_last
        self._steps = _Steps(kernel.blocks, kernel.reads, operands)
        self._reads = [slots[read.uid] for read in self._steps.reads]
        self.shared = worth_sharing(kernel)
        self._seen: list[Array] = []
        """the arrays that the blocks were cut of"""
        self._tasks: list[Callable[[], None]] = []

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, in the last run."""
        return self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        out = allocate(self._kind, self._last) if self._out is None else self._out
        arrays = [out, *[values[slot] for slot in self._reads]]
        if _others(arrays, self._seen):
            self._tasks, self._seen = self._cut(out, arrays[1:]), arrays
        if self.shared and len(self._tasks) > 1:
            share(self._tasks)
        else:
            for task in self._tasks:
                task()
        if self._out is None:
            self._tasks, self._seen = [], []  # the result is given away
        return out

    def _cut(self, out: Array, inputs: list[Array]) -> list[Callable[[], None]]:
        """The blocks for these arrays: most lie in planned memory and are the same at every run."""
        flat = _flattened(inputs, out)
        if flat is not None:
            return [self._steps.bind(*block) for block in _flat_blocks(*flat)]
        rank = out.ndim
        return [self._steps.bind([cut(array, index, rank) for array in inputs], out[index]) for index in _indices(out)]


def _others(arrays: list[Array], seen: list[Array]) -> bool:
    """Whether these are not the arrays seen before."""
    return len(arrays) != len(seen) or any(map(operator.is_not, arrays, seen))


def _flattened(inputs: list[Array], out: Array) -> tuple[list[Array], Array] | None:
    """All as one row of memory, where every operand is dense, whole and laid as the result, or one number."""
    memory = out.transpose(sorted(range(out.ndim), key=out.strides.__getitem__, reverse=True))
    if not memory.flags.c_contiguous:
        return None
    flat = []
    for array in inputs:
        if array.ndim:
            if array.shape != out.shape or _steps_of(array) != _steps_of(out):
                return None
            array = _as_row(array)
        flat.append(array)
    return flat, _as_row(out)


def _steps_of(array: Array) -> list[int]:
    """From element to element along each axis that has more than one."""
    return [step // array.itemsize for step, size in zip(array.strides, array.shape, strict=True) if size > 1]


def _as_row(array: Array) -> Array:
    """A dense array's memory as one row."""
    axes = sorted(range(array.ndim), key=array.strides.__getitem__, reverse=True)
    return array.transpose(axes).reshape(-1, copy=False)


def _flat_blocks(flat: list[Array], out: Array) -> list[tuple[list[Array], Array]]:
    step = max(1, BLOCK_BYTES // out.itemsize)
    return [
        ([array[start : start + step] if array.ndim else array for array in flat], out[start : start + step])
        for start in range(0, out.size, step)
    ]


def _indices(out: Array) -> list[Index]:
    """The blocks of a result, cut along the outermost axis in memory that is longer than 1."""
    axes = sorted([axis for axis, size in enumerate(out.shape) if size > 1], key=out.strides.__getitem__)
    whole = tuple([slice(None)] * out.ndim)
    if not axes or not out.size:
        return [whole]
    axis = axes[-1]
    rows = max(1, BLOCK_BYTES * out.shape[axis] // out.nbytes)
    return [
        (*whole[:axis], slice(start, start + rows), *whole[axis + 1 :]) for start in range(0, out.shape[axis], rows)
    ]


class InPieces:
    """An operation whose result is made in pieces, and elementwise operations on each while it is in the cache."""

    def __init__(
        self,
        kernel: Kernel,
        operands: Operands,
        slots: dict[int, int],
        out: Array | None,
        constant: Callable[[Expr], bool],
    ) -> None:
        self._kind, self._out, self._last = kernel.result.type, out, kernel.channels_last
        self._anchor = kernel.nodes[0]
        read = operands(self._anchor)
        self._sources = [slots[operand.uid] for operand in read]
        self._steps = None if kernel.blocks is None else _Steps(kernel.blocks, kernel.reads, operands)
        self._apart = kernel.blocks is not None and not kernel.blocks.shares
        self._reads = [] if self._steps is None else [slots[read.uid] for read in self._steps.reads]
        self.shared = worth_sharing(kernel)
        place = self._anchor.operation.prepares
        self._keeps = place is not None and constant(read[place])
        self._prepared: Any = None
        self._seen: list[Array] = []
        """the arrays that the pieces were cut for"""
        self._tasks: list[Callable[[], None]] = []
        self._failed: Expr | None = None

    @property
    def failed(self) -> Expr | None:
        """The operation that raised, in the last run."""
        return self._failed if self._failed is not None or self._steps is None else self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        out: Array = allocate(self._kind, self._last) if self._out is None else self._out
        reads, operands = [values[slot] for slot in self._reads], [values[slot] for slot in self._sources]
        arrays = [out, *reads, *operands]
        if _others(arrays, self._seen):
            try:
                self._tasks = self._cut(out, reads, operands)
            except Exception:
                self._failed = self._anchor
                raise
            self._seen = arrays if self._keeps or self._anchor.operation.prepares is None else []
        if self.shared and len(self._tasks) > 1:
            share(self._tasks)
        else:
            for task in self._tasks:
                task()
        if self._out is None:
            self._seen = []  # the result is given away
        return out

    def _cut(self, out: Array, reads: list[Array], operands: list[Array]) -> list[Callable[[], None]]:
        """The pieces for these arrays: most lie in planned memory and are the same at every run."""
        operation, steps = self._anchor.operation, self._steps
        prepared = self._prepared
        if prepared is None and operation.prepares is not None:
            prepared = operation.prepare(operands[operation.prepares])
            if self._keeps:
                self._prepared = prepared
        product = allocate(self._anchor.tensor_type, self._last) if self._apart else out
        tasks = []
        for place, make in operation.pieces(product, prepared, *operands):
            if steps is None:
                tasks.append(make)
                continue
            inputs = [cut(array, place, out.ndim) for array in [*reads, product]]
            tasks.append(functools.partial(self._run, make, steps.bind(inputs, out[*place, ...])))
        return tasks

    def _run(self, make: Callable[[], None], steps: Callable[[], None]) -> None:
        try:
            make()
        except Exception:
            self._failed = self._anchor
            raise
        steps()
