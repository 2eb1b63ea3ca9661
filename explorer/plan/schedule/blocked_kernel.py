"""Blocked fused kernels, which run block by block over the result or over the operand of a reduction.

Each value between operations is stored in a register: an array of one block, which stays in the cache. Only the last
operation writes the result, so the result may overwrite any operand that dies in the kernel
(assets/decisions/0005-fused-kernels-write-last.md). The plan decides all of this from shapes; run/kernels only executes
it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tiles import KEPT_BYTES, TILE_BYTES
from explorer.core.types.device import cpu
from explorer.plan.schedule.tiling import Tiling, tiling_of

BLOCK_BYTES = 1 << 19
"""approximate bytes of the result in a block: registers of this size stay in a core's cache, and with smaller blocks
NumPy's calls take a third of the time"""

REDUCED_BYTES = 1 << 21
"""approximate bytes of a reduction's operand in a block: blocks of 512 KB take 10 % longer, since there are more
partial results to join (assets/decisions/0008)"""

RESULT = -1
"""target of a step that writes to the result's memory instead of a register"""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Steps of a kernel over each block, and the targets of their values.

    ``anchor`` is the product before them, or None. All steps are elementwise. With a ``tiling``, the last step is a
    reduction instead, and the tiling has its blocks.
    """

    anchor: Expr | None
    steps: tuple[Expr, ...]
    registers: tuple[np.dtype[Any], ...]
    """dtype of each register"""
    targets: tuple[int, ...]
    """for each step its target: a register, or RESULT"""
    shares: bool
    """whether the product is written to the result's memory; otherwise it has its own memory"""
    tiling: Tiling | None = None
    """blocks of the reduction's operand"""

    @property
    def workspace(self) -> int:
        """Bytes of one block's registers, of a product with its own memory, and of partial results."""
        if self.tiling is not None:
            return self.scratch + self.tiling.elements * sum([dtype.itemsize for dtype in self.registers])
        type_ = self.steps[-1].tensor_type
        # A product is computed tile by tile, so blocks are as large as tiles.
        block_bytes = TILE_BYTES if self.anchor is not None else BLOCK_BYTES
        # Devices other than cpu choose blocks themselves: registers are as large as the result.
        elements = min(type_.size, block_bytes // type_.dtype.itemsize) if type_.device is cpu else type_.size
        product = 0 if self.anchor is None or self.shares else self.anchor.type.nbytes
        return product + elements * sum([dtype.itemsize for dtype in self.registers])

    @property
    def scratch(self) -> int:
        """Bytes of the workspace in the arena: the partial results of split rows."""
        if self.tiling is None or not self.tiling.in_parts:
            return 0
        last = self.steps[-1]
        return math.prod(self.tiling.parts) * last.operation.partial_dtype(last.dtype).itemsize

    def over(self, nodes: Sequence[Expr]) -> Blocks:
        """Return the same blocks for other nodes with the same pattern."""
        anchor, steps = (None, nodes) if self.anchor is None else (nodes[0], nodes[1:])
        return Blocks(anchor, tuple(steps), self.registers, self.targets, self.shares, self.tiling)

    def laid(self, order: tuple[int, ...]) -> Blocks:
        """Return the blocks for a reduction operand stored in ``order``, which lists its axes from outermost to
        innermost."""
        assert self.tiling is not None
        joins = self.steps[-1].operation.combine_ufunc is not None
        return replace(self, tiling=self.tiling.laid(order, joins))


def tiling_for(steps: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Tiling | None:
    """Return how elementwise steps and a final reduction are cut; None if it needs whole rows and one exceeds a block.

    ``operands`` returns a step's current operands in the graph. The more registers, the smaller the blocks, because a
    thread keeps them from run to run.
    """
    operation, shape = steps[-1].operation, operands(steps[-1])[0].shape
    assert operation.reduced_axes is not None
    widest = max([step.dtype.itemsize for step in steps[:-1]])
    max_elements = REDUCED_BYTES // widest
    if len(steps) > 2 and math.prod(shape) > max_elements // len(steps):  # a thread keeps memory for a few registers
        max_elements = min(
            max_elements, (KEPT_BYTES >> 1) // sum([dtype.itemsize for dtype in _assign(tuple(steps), operands)[0]])
        )
    return tiling_of(shape, operation.reduced_axes, max_elements, operation.combine_ufunc is not None)


def blocks_of(nodes: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Blocks:
    """Return the blocks of a fused kernel; ``nodes`` are operands first, starting with the product, if any."""
    if not nodes[-1].operation.elementwise and len(nodes) > 1:
        steps = tuple(nodes)
        return Blocks(None, steps, *_assign(steps, operands), False, tiling_for(steps, operands))
    anchor = None if nodes[0].operation.elementwise else nodes[0]
    steps = tuple(nodes if anchor is None else nodes[1:])
    shares = anchor is not None and made_in_result(anchor, steps[-1], operands(steps[-1]))
    registers, targets = _assign(steps, operands)
    return Blocks(anchor, steps, registers, targets, shares)


def made_in_result(product: Expr, last: Expr, operands: tuple[Expr, ...]) -> bool:
    """Whether a product needs no memory except for the result of the elementwise steps after it, which end in ``last``.

    The product is written to the result's memory, unless the last step would overwrite an operand that it still reads.
    """
    if product.type is not last.type and product.dtype != last.dtype:
        return False
    return last.operation.reuses_operand or all(operand is not product for operand in operands)


def _assign(
    steps: tuple[Expr, ...], operands: Callable[[Expr], tuple[Expr, ...]]
) -> tuple[tuple[np.dtype[Any], ...], tuple[int, ...]]:
    """Assign a register to every value between steps; return the registers' dtypes and each step's target.

    One pass with a free list for each dtype (linear scan, as in compilers). A step overwrites an operand that dies in
    it if its operation allows this; the registers of other dying operands become free after it.
    """
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for operand in operands(step):
            # Later entries overwrite earlier ones, so this is the last step that reads the value.
            last[operand.uid] = index
    register_of: dict[int, int] = {}
    free: dict[np.dtype[Any], list[int]] = {}
    registers: list[np.dtype[Any]] = []
    targets: list[int] = []
    for index, step in enumerate(steps[:-1]):
        dtype, reuses = step.dtype, step.operation.reuses_operand
        target = -1
        released: list[tuple[np.dtype[Any], int]] = []
        for operand in operands(step):
            uid = operand.uid
            if uid in register_of and last[uid] == index:
                register = register_of.pop(uid)
                # The first dying operand suffices, since a step has one result. A register is an array with one dtype,
                # so dtypes must match.
                if target < 0 and reuses and registers[register] == dtype:
                    target = register
                else:
                    released.append((registers[register], register))
        # No operand's register could be reused: take a free one, or add one.
        if target < 0:
            spare = free.get(dtype)
            if spare:
                target = spare.pop()
            else:
                target = len(registers)
                registers.append(dtype)
        # Free registers only after the target was chosen; otherwise the step would overwrite an operand that it still
        # reads.
        for released_dtype, register in released:
            free.setdefault(released_dtype, []).append(register)
        register_of[step.uid] = target
        targets.append(target)
    return tuple(registers), (*targets, RESULT)
