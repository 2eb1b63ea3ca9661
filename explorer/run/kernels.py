"""From scheduled kernels to functions that run: each reads a table of values, writes its result into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from explorer.core.expr import Expr
from explorer.core.function import Item
from explorer.core.operation import Operation, kernel_of
from explorer.core.types import Array, TensorType, TupleType
from explorer.plan.blocks import BLOCK_BYTES, RESULT
from explorer.plan.schedule import Kernel, rounded

Values: TypeAlias = list[Any]
Runner: TypeAlias = Callable[[Values], Any]


def allocate(kind: Any) -> Any:
    """Memory for a result."""
    if isinstance(kind, TupleType):
        return tuple([np.empty(part.shape, part.dtype) for part in kind.parts])
    return np.empty(kind.shape, kind.dtype)


def placed(kind: TensorType | TupleType, block: Array) -> Any:
    """A result's memory inside a block; the parts of several outputs lie one after the other, each aligned."""
    if isinstance(kind, TensorType):
        return np.ndarray(kind.shape, kind.dtype, buffer=block)
    parts, offset = [], 0
    for part in kind.parts:
        parts.append(np.ndarray(part.shape, part.dtype, buffer=block, offset=offset))
        offset += rounded(part.nbytes)
    return tuple(parts)


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


class Fused:
    """Elementwise operations, after a product or none, that run block by block over the rows of the result."""

    def __init__(
        self, kernel: Kernel, operands: Callable[[Expr], tuple[Expr, ...]], slots: dict[int, int], out: Array | None
    ) -> None:
        kind = kernel.result.type
        assert isinstance(kind, TensorType)
        assert kernel.blocks is not None
        self.kind, self.out, self.blocks = kind, out, kernel.blocks
        self.failed: Expr | None = None
        """the operation that raised, in the last run"""
        steps, anchor = self.blocks.steps, self.blocks.anchor
        used = {operand.uid for step in steps for operand in operands(step)}
        reads = [read for read in kernel.reads if read.uid in used]
        self.reads = [slots[read.uid] for read in reads]
        held = {read.uid: place for place, read in enumerate(reads)}
        if anchor is not None:
            self.anchored = [slots[operand.uid] for operand in operands(anchor)]
            self.product = kernel_of(anchor.operation, anchor.device)
            held[anchor.uid] = len(reads)
        result = len(held)  # places are those of the inputs, then the result's, then the registers
        self.program: list[tuple[Callable[..., Any], list[int], int, Expr]] = []
        for step, register in zip(steps, self.blocks.targets, strict=True):
            sources = [held[operand.uid] for operand in operands(step)]
            held[step.uid] = target = result if register == RESULT else result + 1 + register
            self.program.append((kernel_of(step.operation, step.device), sources, target, step))
        self.rows = kind.shape[0] if kind.shape else 1
        self.cut = [read.shape[:1] == kind.shape[:1] and read.ndim == kind.rank for read in reads]
        self.cut += [True] * (anchor is not None)
        self.scratch = [] if self.blocks.flat else self._registers()

    def _registers(self) -> list[Array]:
        shape = (self.blocks.rows, *self.kind.shape[1:]) if self.kind.shape else ()
        return [np.empty(shape, dtype) for dtype in self.blocks.registers]

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        kind = self.kind
        out = np.empty(kind.shape, kind.dtype) if self.out is None else self.out
        operands: list[Array] = [values[slot] for slot in self.reads]
        if self.blocks.anchor is not None:
            operands.append(self._anchor(self.blocks.anchor, out, values))
        if self.blocks.flat and self._flatten(operands, out):
            return out
        scratch = self._registers() if self.blocks.flat else self.scratch
        rows, step = self.rows, self.blocks.rows
        if step >= rows:
            self._block([*operands, out, *scratch])
            return out
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            pieces = [array[start:stop] if yes else array for array, yes in zip(operands, self.cut, strict=True)]
            if stop - start < step:
                scratch = [register[: stop - start] for register in scratch]
            self._block([*pieces, out[start:stop], *scratch])
        return out

    def _anchor(self, anchor: Expr, out: Array, values: Values) -> Array:
        product = out if self.blocks.shares else np.empty(self.kind.shape, anchor.dtype)
        try:
            settle(product, self.product(product, *[values[slot] for slot in self.anchored]))
        except Exception:
            self.failed = anchor
            raise
        return product

    def _flatten(self, operands: list[Array], out: Array) -> bool:
        """Run over all elements as one row, where every operand is dense and whole, or one number."""
        for array in operands:
            if not (array.ndim == 0 or (array.shape == out.shape and array.flags.c_contiguous)):
                return False
        flat, whole = [array.reshape(-1) if array.ndim else array for array in operands], out.reshape(-1)
        step = max(1, BLOCK_BYTES // out.itemsize)
        scratch = [np.empty(step, dtype) for dtype in self.blocks.registers]
        for start in range(0, out.size, step):
            piece = whole[start : start + step]
            if piece.size < step:
                scratch = [register[: piece.size] for register in scratch]
            self._block([*[a[start : start + step] if a.ndim else a for a in flat], piece, *scratch])
        return True

    def _block(self, places: list[Array]) -> None:
        step = self.program[0]
        try:
            for step in self.program:
                kernel, sources, target, _ = step
                out = places[target]
                made = kernel(out, *[places[source] for source in sources])
                if made is not out:
                    settle(out, made)
        except Exception:
            self.failed = step[3]
            raise
