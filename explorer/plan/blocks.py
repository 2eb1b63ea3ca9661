"""How a fused kernel runs: block by block over its result, with a register for each value that lies between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core.expr import Expr
from explorer.core.pieces import PIECE_BYTES

BLOCK_BYTES = 1 << 19
"""fused operations work on pieces of about this many bytes of the result, so that temporaries stay in the cache; of
smaller ones NumPy's calls take a third of the time"""

RESULT = -1
"""the place of a value that is written into the result's memory"""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The elementwise ``steps`` of a kernel, after the product ``anchor`` or none, and where their values go."""

    anchor: Expr | None
    steps: tuple[Expr, ...]
    registers: tuple[np.dtype[Any], ...]
    """the dtype of each register"""
    targets: tuple[int, ...]
    """for each step the register that it writes, or RESULT"""
    shares: bool
    """whether the product is made in the result's memory"""

    @property
    def workspace(self) -> int:
        """Bytes of the registers of one block, and of the product where it has memory of its own."""
        kind = self.steps[-1].tensor_type
        most = PIECE_BYTES if self.anchor is not None else BLOCK_BYTES
        elements = min(kind.size, most // kind.dtype.itemsize)
        product = 0 if self.anchor is None or self.shares else self.anchor.type.nbytes
        return product + elements * sum([dtype.itemsize for dtype in self.registers])


def blocks_of(nodes: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]]) -> Blocks:
    """The blocks of a fused kernel's nodes, operands first, the product before all."""
    anchor = None if nodes[0].operation.elementwise else nodes[0]
    steps = tuple(nodes if anchor is None else nodes[1:])
    kind = steps[-1].tensor_type
    # the product is made in the result's memory unless the last write would destroy what it still reads
    shares = (
        anchor is not None
        and anchor.dtype == kind.dtype
        and (steps[-1].operation.reuses_operand or all(operand is not anchor for operand in operands(steps[-1])))
    )
    registers, targets = _assign(steps, operands)
    return Blocks(anchor, steps, registers, targets, shares)


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
        dying = {o.uid: o for o in operands(step) if o.uid in held and last[o.uid] == index}
        for operand in dying.values():
            if step.operation.reuses_operand and operand.dtype == step.dtype:
                target = held[operand.uid]
                break
        else:
            spare = free.get(step.dtype)
            if spare:
                target = spare.pop()
            else:
                target = len(registers)
                registers.append(step.dtype)
        for operand in dying.values():
            if held[operand.uid] != target:
                free.setdefault(operand.dtype, []).append(held[operand.uid])
        held[step.uid] = target
        targets.append(target)
    return tuple(registers), (*targets, RESULT)
