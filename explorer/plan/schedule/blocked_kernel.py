"""Blocked fused kernels: they run block by block over the result, or over the operand of a reduction.

Each value between operations is stored in a register, which is an array of the size of one block that stays in the
cache. Only the last operation writes the result, so the result may overwrite any operand that is not read after the
kernel (assets/decisions/0005-fused-kernels-write-last.md). The plan decides all of this based on shapes, and
run/kernels executes it.
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
"""approximate bytes of the result in a block; registers of this size stay in a core's cache, and with smaller blocks
the calls of NumPy functions would take a third of the time"""

REDUCED_BYTES = 1 << 21
"""approximate bytes of a reduction's operand in a block; with blocks of 512 KB a reduction takes 10 % longer, because
there are more partial results to combine (assets/decisions/0008)"""

RESULT = -1
"""target of a step that writes into the memory of the result, not into a register"""


@dataclass(eq=False, slots=True)
class Blocks:
    """Steps that a kernel runs for each block, and the targets of their values.

    ``anchor`` is the product before the steps, or None. All steps are elementwise, unless there is a ``tiling``. In
    this case the last step is a reduction, and the tiling contains its blocks.
    """

    anchor: Expr | None
    steps: tuple[Expr, ...]
    registers: tuple[np.dtype[Any], ...]
    """dtype of each register"""
    targets: tuple[int, ...]
    """for each step, the index of the register that it writes, or RESULT"""
    shares: bool
    """whether the product is written into the result's memory; otherwise it has its own memory"""
    tiling: Tiling | None = None
    """blocks of the reduction's operand"""
    whole: bool = False
    """whether each step computes its whole result, because reductions are followed by other steps"""

    @property
    def workspace(self) -> int:
        """Bytes of the registers of one block, of a product with its own memory, and of partial results."""
        if self.whole:
            return sum([step.type.nbytes for step in self.steps[:-1]])
        if self.tiling is not None:
            return self.scratch + self.tiling.elements * sum([dtype.itemsize for dtype in self.registers])
        type_ = self.steps[-1].tensor_type
        # A product is computed tile by tile, and then blocks have the size of tiles.
        block_bytes = TILE_BYTES if self.anchor is not None else BLOCK_BYTES
        # On other devices than cpu, the result is one block, so registers are as large as the result.
        elements = min(type_.size, block_bytes // type_.dtype.itemsize) if type_.device is cpu else type_.size
        product = 0 if self.anchor is None or self.shares else self.anchor.type.nbytes
        return product + elements * sum([dtype.itemsize for dtype in self.registers])

    @property
    def scratch(self) -> int:
        """Bytes of the workspace that are in the arena: partial results, if rows are divided."""
        if self.tiling is None or not self.tiling.in_parts:
            return 0
        last = self.steps[-1]
        return math.prod(self.tiling.parts) * last.operation.partial_dtype(last.dtype).itemsize

    def over(self, nodes: Sequence[Expr]) -> Blocks:
        """Return the same blocks for other nodes that have the same pattern."""
        anchor, steps = (None, nodes) if self.anchor is None else (nodes[0], nodes[1:])
        return Blocks(anchor, tuple(steps), self.registers, self.targets, self.shares, self.tiling, self.whole)

    def laid(self, order: tuple[int, ...]) -> Blocks:
        """Return the blocks for an operand of the reduction that is stored in ``order``.

        ``order`` lists its axes from outermost to innermost.
        """
        assert self.tiling is not None
        joins = self.steps[-1].operation.combine_ufunc is not None
        return replace(self, tiling=self.tiling.laid(order, joins))


def tiling_for(steps: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Tiling | None:
    """Return the tiling of elementwise steps and a final reduction.

    Returns None if the reduction needs whole rows, and a row exceeds a block. ``operands`` returns the current operands
    of a step in the graph. If there are more registers, blocks are smaller, because each thread keeps its registers
    between runs.
    """
    operation, shape = steps[-1].operation, operands(steps[-1])[0].shape
    assert operation.reduced_axes is not None
    widest = max([step.dtype.itemsize for step in steps[:-1]])
    max_elements = REDUCED_BYTES // widest
    if len(steps) > 2 and math.prod(shape) > max_elements // len(steps):  # a thread keeps only a few registers
        max_elements = min(
            max_elements, (KEPT_BYTES >> 1) // sum([dtype.itemsize for dtype in _assign(tuple(steps), operands)[0]])
        )
    return tiling_of(shape, operation.reduced_axes, max_elements, operation.combine_ufunc is not None)


def blocks_of(nodes: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Blocks:
    """Return the blocks of a fused kernel.

    ``nodes`` are in topological order, and start with the product if there is one.
    """
    if _is_joined(nodes, operands):
        return Blocks(None, tuple(nodes), (), (), False, whole=True)
    if not nodes[-1].operation.elementwise and len(nodes) > 1:
        steps = tuple(nodes)
        return Blocks(None, steps, *_assign(steps, operands), False, tiling_for(steps, operands))
    anchor = None if nodes[0].operation.elementwise else nodes[0]
    steps = tuple(nodes if anchor is None else nodes[1:])
    shares = anchor is not None and made_in_result(anchor, steps[-1], operands(steps[-1]))
    registers, targets = _assign(steps, operands)
    return Blocks(anchor, steps, registers, targets, shares)


def _is_joined(nodes: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> bool:
    """Return whether steps follow a reduction, or have other shapes than the operand of the last step, a reduction."""
    *steps, last = nodes
    if any(step.operation.reduced_axes is not None and not step.operation.elementwise for step in steps):
        return True
    is_reduced = last.operation.reduced_axes is not None and not last.operation.elementwise
    return is_reduced and any(step.shape != operands(last)[0].shape for step in steps)


def made_in_result(product: Expr, last: Expr, operands: tuple[Expr, ...]) -> bool:
    """Return whether a product can be computed in the memory of the kernel's result.

    ``last`` is the kernel's last step. This is impossible if the last step would overwrite an operand that it still
    reads.
    """
    if product.type is not last.type and product.dtype != last.dtype:
        return False
    return last.operation.reuses_operand or all(operand is not product for operand in operands)


def _assign(
    steps: tuple[Expr, ...], operands: Callable[[Expr], tuple[Expr, ...]]
) -> tuple[tuple[np.dtype[Any], ...], tuple[int, ...]]:
    """Assign a register to every value between steps.

    Returns the dtypes of the registers and the target of each step. The algorithm is linear scan, as in compilers, with
    a free list for each dtype. If an operand is read for the last time, the step overwrites it if its operation permits
    this. The registers of other such operands become free after the step.
    """
    last: dict[int, int] = {}
    for index, step in enumerate(steps):
        for operand in operands(step):
            # Later steps overwrite earlier ones in this dict, so it contains the last step that reads each value.
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
                # One register suffices, because a step has one result. A register is an array with one dtype, so the
                # dtypes must be equal.
                if target < 0 and reuses and registers[register] == dtype:
                    target = register
                else:
                    released.append((registers[register], register))
        # No operand's register can be overwritten, so use a free register, or add one.
        if target < 0:
            spare = free.get(dtype)
            if spare:
                target = spare.pop()
            else:
                target = len(registers)
                registers.append(dtype)
        # Free the registers only after the target was chosen. Otherwise the step could overwrite an operand that it
        # still reads.
        for released_dtype, register in released:
            free.setdefault(released_dtype, []).append(register)
        register_of[step.uid] = target
        targets.append(target)
    return tuple(registers), (*targets, RESULT)
