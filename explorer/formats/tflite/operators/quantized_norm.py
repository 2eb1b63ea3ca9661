"""Quantised rows over their norms, whose reciprocal TensorFlow Lite's kernels find by Newton's steps of 32 bits."""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.tflite.operators.fixed_point import BITS, Numbers, divided, high, multiplied, saturated
from explorer.formats.tflite.operators.integer_arithmetic import of_bytes, single
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.nn.activation import clip

_ONE = 1 << 28
"""one, where three bits stand before the point"""
_HALF_ROOT = 1518500250
"""√2 / 2 of 31 bits"""
_STEPS = 5
_FACTOR = 7
"""power of two by which a result of 8 bits is finer than one"""


class OverNorm(Operation):
    """Whole numbers over the norm of their row along the last axis, in 128ths."""

    rounds_late: bool = True
    """the factor 128 is part of the shift behind the product, as for int8, and not of the number, as for uint8"""
    portable = False
    nondifferentiable = "results are rounded to whole numbers, whose slope is 0 almost everywhere"
    unbatchable = "each row is normalised by itself already"
    examples = (Example(integers(4, 3, high=9)),)

    def infer(self, x: TensorType) -> TensorType:
        """Return int64 in the operand's shape."""
        if not x.rank or x.dtype.kind != "i":
            raise self.refuse((x,), "the operand must have rows of signed whole numbers")
        return TensorType(x.shape, np.dtype(np.int64))

    def kernel(self, out: Array, x: Array) -> Array:
        """Multiply each row by the reciprocal of its norm."""
        number = x.astype(np.int64)
        multipliers, shifts = _inverse_roots(np.sum(number * number, -1, keepdims=True))
        if self.rounds_late:
            out[...] = multiplied(number, multipliers, _FACTOR - shifts)
        else:
            out[...] = divided(high(number << _FACTOR, multipliers), shifts)
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return a multiplication and an addition for each element twice."""
        return 4 * types[0].size


def _inverse_roots(x: Array) -> tuple[Numbers, Numbers]:
    """Return for each whole number multipliers of 31 bits and shifts: 1 / √x = multiplier · 2^(−31 − shift)."""
    size, shifts = np.maximum(x, 2), np.full(x.shape, 11, np.int64)
    while np.any(large := size >= 1 << 29):
        size, shifts = np.where(large, size >> 2, size), shifts + large
    pairs = (BITS - np.frexp(size.astype(np.float64))[1].astype(np.int64)) // 2 - 1
    shifts = shifts - pairs
    number = (size << 2 * pairs) >> 1
    half, inverse = divided(number, 1), np.full(x.shape, _ONE, np.int64)
    for _ in range(_STEPS):
        cube = saturated(high(high(inverse, inverse), inverse), 6)
        inverse = saturated(high(3 * _ONE // 2, inverse) - high(half, cube), 3)
    inverse = high(inverse, _HALF_ROOT) << np.maximum(-shifts, 0)
    # 0 and 1 have no root to find
    small = x <= 1
    return np.where(small, (1 << BITS) - 1, inverse), np.where(small, 0, np.maximum(shifts, 0))


def normalized_rows(op: OperatorContext, x: Expr) -> Expr:
    """Return rows over their norms, in steps of 1/128."""
    op.only("fused_activation_function", "NONE")
    of_bytes(op, input=x)
    zero, (own_scale, own_zero) = single(op, "input")[1], single(op, "output")
    info = np.iinfo(x.dtype)
    middle = int(info.max) // 2 + 1 if x.dtype.kind == "u" else 0
    if own_scale != np.float32(1 / 128) or own_zero != middle:
        raise OperandError(
            f"output has the scale {own_scale} and the zero point {own_zero}",
            rule=f"L2_NORMALIZATION: the result must have the scale 1/128 and the zero point {middle}",
        )
    number = OverNorm(x.dtype.kind == "i")(cast(x, np.dtype(np.int64)) - zero)
    return cast(clip(number + own_zero, int(info.min), int(info.max)), x.dtype)
