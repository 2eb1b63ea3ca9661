"""How a fused kernel runs: block by block over its result, or over what its reduction reads, with a register for each
value that lies between."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tiles import KEPT_BYTES, TILE_BYTES
from explorer.plan.schedule.tiling import Tiling, tiling_of

BLOCK_BYTES = 1 << 19
"""fused operations work on pieces of about this many bytes of the result, so that temporaries stay in the cache; of
smaller ones NumPy's calls take a third of the time"""

REDUCED_BYTES = 1 << 21
"""and on pieces of about this many bytes of what a reduction reads"""

RESULT = -1
"""the place of a value that is written into the result's memory"""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The ``steps`` of a kernel, after the product ``anchor`` or none, and where their values go.

    They are elementwise, but for the last one where the kernel is cut as a reduction asks.
    """

    anchor: Expr | None
    steps: tuple[Expr, ...]
    registers: tuple[np.dtype[Any], ...]
    """the dtype of each register"""
    targets: tuple[int, ...]
    """for each step the register that it writes, or RESULT"""
    shares: bool
    """whether the product is made in the result's memory"""
    tiling: Tiling | None = None
    """how what the reduction reads is cut"""

    @property
    def workspace(self) -> int:
        """Bytes of the registers of one block, and of what has memory of its own: a product, the values of parts."""
        if self.tiling is not None:
            return self.scratch + self.tiling.elements * sum([dtype.itemsize for dtype in self.registers])
        type_ = self.steps[-1].tensor_type
        most = TILE_BYTES if self.anchor is not None else BLOCK_BYTES
        elements = min(type_.size, most // type_.dtype.itemsize)
        product = 0 if self.anchor is None or self.shares else self.anchor.type.nbytes
        return product + elements * sum([dtype.itemsize for dtype in self.registers])

    @property
    def scratch(self) -> int:
        """Bytes of the workspace that the program gives: of the values of parts of rows."""
        if self.tiling is None or not self.tiling.in_parts:
            return 0
        last = self.steps[-1]
        return math.prod(self.tiling.parts) * last.operation.partial_dtype(last.dtype).itemsize

    def over(self, nodes: Sequence[Expr]) -> Blocks:
        """The same for other nodes of the same pattern."""
        anchor, steps = (None, nodes) if self.anchor is None else (nodes[0], nodes[1:])
        return Blocks(anchor, tuple(steps), self.registers, self.targets, self.shares, self.tiling)

    def laid(self, order: tuple[int, ...]) -> Blocks:
        """The same where what the reduction reads lies in memory by ``order``, its axes from the outermost."""
        assert self.tiling is not None
        joins = self.steps[-1].operation.combine_ufunc is not None
        return replace(self, tiling=self.tiling.laid(order, joins))


def tiling_for(steps: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Tiling | None:
    """How elementwise steps and the reduction at their end are cut; None where rows it needs whole fit no block."""
    operation, shape = steps[-1].operation, operands(steps[-1])[0].shape
    assert operation.reduced_axes is not None
    widest = max([step.dtype.itemsize for step in steps[:-1]])
    most = REDUCED_BYTES // widest
    if len(steps) > 2 and math.prod(shape) > most // len(steps):  # a thread keeps memory for so many registers only
        most = min(most, (KEPT_BYTES >> 1) // sum([dtype.itemsize for dtype in _assign(tuple(steps), operands)[0]]))
    return tiling_of(shape, operation.reduced_axes, most, operation.combine_ufunc is not None)


def blocks_of(nodes: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Blocks:
    """The blocks of a fused kernel's nodes, operands first, the product before all."""
    if not nodes[-1].operation.elementwise and len(nodes) > 1:
        steps = tuple(nodes)
        return Blocks(None, steps, *_assign(steps, operands), False, tiling_for(steps, operands))
    anchor = None if nodes[0].operation.elementwise else nodes[0]
    steps = tuple(nodes if anchor is None else nodes[1:])
    shares = anchor is not None and made_in_result(anchor, steps[-1], operands(steps[-1]))
    registers, targets = _assign(steps, operands)
    return Blocks(anchor, steps, registers, targets, shares)


def made_in_result(product: Expr, last: Expr, operands: tuple[Expr, ...]) -> bool:
    """Whether a product needs no memory beside the result of elementwise steps on it, of which ``last`` is the last.

    It is made in the result's memory, unless the last step would destroy an operand that it still reads.
    """
    if product.type is not last.type and product.dtype != last.dtype:
        return False
    return last.operation.reuses_operand or all(operand is not product for operand in operands)


def _assign(
    steps: tuple[Expr, ...], operands: Callable[[Expr], tuple[Expr, ...]]
) -> tuple[tuple[np.dtype[Any], ...], tuple[int, ...]]:
    """Give every intermediate a register; one is used again when its value is read for the last time."""
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for operand in operands(step):
            last[operand.uid] = index
    held: dict[int, int] = {}
    free: dict[np.dtype[Any], list[int]] = {}
    registers: list[np.dtype[Any]] = []
    targets: list[int] = []
    for index, step in enumerate(steps[:-1]):
        dtype, reuses = step.dtype, step.operation.reuses_operand
        target = -1
        released: list[tuple[np.dtype[Any], int]] = []
        for operand in operands(step):
            uid = operand.uid
            if uid in held and last[uid] == index:
                register = held.pop(uid)
                if target < 0 and reuses and registers[register] == dtype:
                    target = register
                else:
                    released.append((registers[register], register))
        if target < 0:
            spare = free.get(dtype)
            if spare:
                target = spare.pop()
            else:
                target = len(registers)
                registers.append(dtype)
        for released_dtype, register in released:
            free.setdefault(released_dtype, []).append(register)
        held[step.uid] = target
        targets.append(target)
    return tuple(registers), (*targets, RESULT)
