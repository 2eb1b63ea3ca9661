"""From scheduled kernels to functions that run: each reads a table of values, writes its result into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from explorer.core.expr import Expr
from explorer.core.function import Item
from explorer.core.operation import Operation, kernel_of
from explorer.core.types import Array, TensorType, TupleType
from explorer.plan.schedule import Kernel

Values: TypeAlias = list[Any]
Runner: TypeAlias = Callable[[Values], Any]

BLOCK_BYTES = 1 << 16
"""fused operations work on pieces of about this many bytes of the result, so that temporaries stay in the cache"""


def allocate(kind: Any) -> Any:
    """Memory for a result."""
    if isinstance(kind, TupleType):
        return tuple([np.empty(part.shape, part.dtype) for part in kind.parts])
    return np.empty(kind.shape, kind.dtype)


def single(operation: Operation, sources: list[int], kind: Any, out: Any) -> Runner:
    """One operation; ``out`` is the planned memory, None for a view or for fresh memory at each run."""
    kernel = kernel_of(operation, _device(kind))
    if isinstance(operation, Item):
        (source,), index = sources, operation.index
        return lambda values: values[source][index]
    if operation.view:
        return lambda values: kernel(None, *[values[source] for source in sources])
    if out is None:
        return lambda values: kernel(allocate(kind), *[values[source] for source in sources])
    if len(sources) == 1:
        (first,) = sources
        return lambda values: kernel(out, values[first])
    if len(sources) == 2:
        first, second = sources
        return lambda values: kernel(out, values[first], values[second])
    return lambda values: kernel(out, *[values[source] for source in sources])


def _device(kind: Any) -> Any:
    return kind.parts[0].device if isinstance(kind, TupleType) else kind.device


class Fused:
    """Elementwise operations, after a product or none, that run block by block over the rows of the result."""

    def __init__(self, kernel: Kernel, operands: Callable[[Expr], tuple[Expr, ...]], slots: dict[int, int], out: Array | None) -> None:
        self.kind: Any = kernel.result.type
        assert isinstance(self.kind, TensorType)
        self.out = out
        nodes = kernel.nodes
        self.anchor = None if nodes[0].operation.elementwise else nodes[0]
        self.anchored = [slots[operand.uid] for operand in operands(nodes[0])] if self.anchor is not None else []
        steps = nodes if self.anchor is None else nodes[1:]
        # the product is made in the result's memory unless the last write would destroy what it still reads
        self.shares = self.anchor is not None and self.anchor.dtype == self.kind.dtype and (
            steps[-1].operation.reuses_operand or all([operand is not self.anchor for operand in operands(steps[-1])])
        )
        self.reads = [slots[read.uid] for read in kernel.reads if self._used(read, steps, operands)]
        places: dict[int, int] = {}
        for read in kernel.reads:
            if self._used(read, steps, operands):
                places[read.uid] = len(places)
        if self.anchor is not None:
            places[self.anchor.uid] = len(places)
        self.inputs = len(places)
        self.program: list[tuple[Callable[..., Any], list[int], int]] = []
        self.registers: list[np.dtype[Any]] = []
        self._assign(steps, operands, places)

    @staticmethod
    def _used(read: Expr, steps: tuple[Expr, ...], operands: Callable[[Expr], tuple[Expr, ...]]) -> bool:
        return any([operand is read for step in steps for operand in operands(step)])

    def _assign(self, steps: tuple[Expr, ...], operands: Callable[[Expr], tuple[Expr, ...]], places: dict[int, int]) -> None:
        """Give every intermediate a register; a register is used again when its value is read for the last time."""
        last: dict[int, int] = {}
        for index, step in enumerate(steps):
            for operand in operands(step):
                last[operand.uid] = index
        held = dict(places)
        free: dict[np.dtype[Any], list[int]] = {}
        final = len(steps) - 1
        for index, step in enumerate(steps):
            reads = operands(step)
            sources = [held[operand.uid] for operand in reads]
            dying = {o.uid: o for o in reads if last[o.uid] == index and o.uid in held and held[o.uid] > self.inputs}
            target = 0
            if index == final:
                target = self.inputs
            else:
                for operand in dying.values():
                    if step.operation.reuses_operand and operand.dtype == step.dtype:
                        target = held[operand.uid]
                        break
                else:
                    spare = free.get(step.dtype)
                    if spare:
                        target = spare.pop()
                    else:
                        self.registers.append(step.dtype)
                        target = self.inputs + len(self.registers)
            for operand in dying.values():
                if held[operand.uid] != target:
                    free.setdefault(operand.dtype, []).append(held[operand.uid])
            held[step.uid] = target
            self.program.append((kernel_of(step.operation, step.device), sources, target))

    def __call__(self, values: Values) -> Array:
        kind = self.kind
        out = np.empty(kind.shape, kind.dtype) if self.out is None else self.out
        operands = [values[slot] for slot in self.reads]
        if self.anchor is not None:
            product = out if self.shares else np.empty(kind.shape, self.anchor.dtype)
            self.anchor.operation.kernel(product, *[values[slot] for slot in self.anchored])
            operands.append(product)
        rows = kind.shape[0] if kind.shape else 1
        per_row = kind.nbytes // rows if rows else 0
        step = max(1, BLOCK_BYTES // per_row) if per_row else rows
        if step >= rows:
            self._block(operands, out, kind.shape)
            return out
        cut = [array.ndim == len(kind.shape) and array.shape[0] == rows for array in operands]
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            pieces = [array[start:stop] if yes else array for array, yes in zip(operands, cut, strict=True)]
            self._block(pieces, out[start:stop], (stop - start, *kind.shape[1:]))
        return out

    def _block(self, operands: list[Array], out: Array, shape: tuple[int, ...]) -> None:
        places = [*operands, out, *[np.empty(shape, dtype) for dtype in self.registers]]
        for kernel, sources, target in self.program:
            kernel(places[target], *[places[source] for source in sources])
