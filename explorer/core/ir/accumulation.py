"""Accumulation: operations that sum elements compute in float32 for float16, bfloat16 and narrower floats.

The operands are converted before the kernel runs, and its result is rounded once. Kernels need no code for this, and
compute the same bits whether they run separately, in blocks or fused.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from explorer.core.ir.expr import Operation, compute_widened, is_widened
from explorer.core.ir.tiles import Tile
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import AnyType, Array, TensorType


def pack_for_tiles(operation: Operation, out: np.dtype[Any], operands: list[Array]) -> Any:
    """Pack the operand that tiles read in packed form, for a result of dtype ``out``; None if no operand is packed."""
    if operation.packed_operand is None or is_widened(operation, out):
        return None
    return operation.pack_operand(operands[operation.packed_operand])


def tiles_of(operation: Operation, out: Array, prepared: Any, operands: list[Array]) -> list[Tile]:
    """Return the tiles that compute the array ``out``; if the operands are widened, there is a single tile."""
    if is_widened(operation, out.dtype):
        full = tuple([slice(0, size) for size in out.shape])
        return [Tile(full, partial(compute_widened, operation, out, *operands))]
    return operation.tiles(out, prepared, *operands)


def workspace_of(operation: Operation, *types: AnyType) -> int:
    """Return the number of bytes of an operation's temporaries, including widened operands and results."""
    if not operation.accumulates:
        return operation.workspace(*types)
    original = (*types, operation.type_of(types))
    widened_types = [_widened_type(type_) for type_ in original]
    copies = sum(
        [widened.nbytes for type_, widened in zip(original, widened_types, strict=True) if widened is not type_]
    )
    return operation.workspace(*widened_types[:-1]) + copies


def _widened_type(type_: AnyType) -> AnyType:
    return type_.with_dtype(accumulator_dtype(type_.dtype)) if isinstance(type_, TensorType) else type_
