"""Tiled epilogues: elementwise operations on each tile of a result while the tile is in the cache.

This is the kernel of a matrix product, convolution or pooling, with or without an epilogue. The operation divides its
result into small tiles (`tiles`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from explorer.core.ir.accumulation import pack_for_tiles, tiles_of
from explorer.core.ir.expr import Expr
from explorer.core.ir.tiles import TILE_BYTES, Index, cut
from explorer.core.types.tensor_type import Array
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.elementwise_chain import blocks
from explorer.run.kernels.runners import BoundBlock, BoundStep, Operands, Steps, Values, run_all
from explorer.run.runtime.memory import allocate
from explorer.run.runtime.thread_pool import worth_sharing

_Finish: TypeAlias = Callable[[Index], list[Callable[[], None]]]
"""function that returns the steps on a tile"""
CompiledSteps: TypeAlias = Callable[[Callable[[Expr], Array], Array], tuple[_Finish, bool] | None]
"""function that receives the value of each operand, and the result, and returns the steps on a tile, and whether they
read a copy of an operand; None: the steps could not be compiled"""


class TiledEpilogue:
    """Operation computed tile by tile, followed by elementwise operations on each tile.

    With ``fixed_memory``, operands have fixed addresses, so tiles are created only once. With ``constant``, the operand
    that the operation packs never changes, so the packed copy is kept. ``compiled`` computes the elementwise
    operations, unless it returns None.
    """

    def __init__(
        self,
        kernel: Kernel,
        operands: Operands,
        slots: dict[int, int],
        out: Array | None,
        fixed_memory: bool,
        constant: bool,
        compiled: CompiledSteps | None = None,
    ) -> None:
        self._slots, self._compiled = slots, compiled
        self._kind, self._out, self._last = kernel.result.type, out, kernel.channels_last
        self._anchor = kernel.nodes[0]
        operation = self._anchor.operation
        self._sources = [slots[operand.uid] for operand in operands(self._anchor)]
        self._has_own_product = kernel.blocks is not None and not kernel.blocks.shares
        self.shared = worth_sharing(kernel)
        self._keeps_packed = constant
        # Tasks contain the packed copy, so they can be reused only if it can.
        varies = operation.packed_operand is not None and not constant
        self._fixed_memory = fixed_memory and out is not None and not self._has_own_product and not varies
        self._steps = None
        if kernel.blocks is not None:
            self._steps = Steps(kernel.blocks, kernel.reads, operands, fixed_memory=self._fixed_memory)
        self._reads = [] if self._steps is None else [slots[read.uid] for read in self._steps.reads]
        self._copies = False
        """whether the compiled steps read a copy of an operand, which is made in each run"""
        self._prepared: Any = None
        self._tasks: list[Callable[[], None]] = []
        self._failed: Expr | None = None

    @property
    def failed(self) -> Expr | None:
        """The operation that raised an error in the last run."""
        return self._failed if self._failed is not None or self._steps is None else self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        self._failed = None
        if self._steps is not None:
            self._steps.failed = None
        out: Array = allocate(self._kind, self._last) if self._out is None else self._out
        tasks = self._tasks
        if not tasks:
            try:
                tasks = self._cut(out, values)
            except Exception:
                self._failed = self._anchor
                raise
            if self._fixed_memory and not self._copies:
                self._tasks = tasks
        run_all(tasks, self.shared)
        return out

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the product and its epilogue as steps if there is a single tile at a fixed address; else None."""
        if len(self._tasks) != 1:
            return None
        (task,) = self._tasks
        if not isinstance(task, _FinishedTile):
            return [(task, None, self._anchor)]
        steps: list[BoundStep] = [(task.make, None, self._anchor)]
        for block in task.finish:
            steps += block.bound_steps() if isinstance(block, BoundBlock) else [(block, None, None)]
        return steps

    def _cut(self, out: Array, values: Values) -> list[Callable[[], None]]:
        """Return one task per tile, which computes the product and then the epilogue."""
        operation, operands = self._anchor.operation, [values[slot] for slot in self._sources]
        prepared = self._prepared
        if prepared is None:
            prepared = pack_for_tiles(operation, self._anchor.dtype, operands)
            if self._keeps_packed:
                self._prepared = prepared
        # The product has separate memory if the result's memory is unsuitable for it.
        product = allocate(self._anchor.tensor_type, self._last) if self._has_own_product else out
        tiles = tiles_of(operation, product, prepared, operands)
        if self._steps is None:
            return [compute for _, compute in tiles]
        finish = self._finish(self._steps, out, product, values)
        return [_FinishedTile(self, compute, finish(index)) for index, compute in tiles]

    def _finish(self, steps: Steps, out: Array, product: Array, values: Values) -> _Finish:
        """Return a function that returns the elementwise steps on a tile."""

        def array_of(node: Expr) -> Array:
            return product if node is self._anchor else values[self._slots[node.uid]]

        compiled = None if self._compiled is None else self._compiled(array_of, out)
        if compiled is not None:
            finish, self._copies = compiled
            return finish
        reads = [*[values[slot] for slot in self._reads], product]

        def in_blocks(index: Index) -> list[Callable[[], None]]:
            part: Any = (*index, ...)  # with the ellipsis, it remains an array if it has only one element
            return _finishing(steps, [cut(array, index, out.ndim) for array in reads], out[part])

        return in_blocks

    def run(self, compute: Callable[[], None]) -> None:
        """Compute a tile of the product; if this fails, store the product as the failed operation."""
        try:
            compute()
        except Exception:
            self._failed = self._anchor
            raise


@dataclass(frozen=True, slots=True)
class _FinishedTile:
    """Task for one tile: compute its product, then run elementwise steps on its blocks."""

    epilogue: TiledEpilogue
    make: Callable[[], None]
    finish: list[Callable[[], None]]

    def __call__(self) -> None:
        """Compute the tile."""
        self.epilogue.run(self.make)
        for block in self.finish:
            block()


def _finishing(steps: Steps, inputs: list[Array], part: Array) -> list[Callable[[], None]]:
    """Return the elementwise steps on a tile, in blocks if they need registers."""
    if not steps.registers or part.nbytes <= TILE_BYTES:
        return [steps.bind(inputs, part)]
    return [
        steps.bind([cut(array, index, part.ndim) for array in inputs], part[index])
        for index in blocks(part, TILE_BYTES)
    ]
