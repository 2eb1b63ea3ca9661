"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write in place of several of the standard.

The onnx package has no schemas of that domain: inputs go by their position, ``input 0``, ``input 1``, …

Each is written out in the standard's operations, which plans fuse as they do for any other program.
"""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.known_inputs import optional, required
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.trigonometric_and_logs import rsqrt
from explorer.ops.elementwise.unary import sigmoid
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import gelu
from explorer.ops.nn.normalization import layer_norm, rms_norm
from explorer.ops.reduction.reduce import mean
from explorer.ops.reduction.statistics import var


def _plus(op: OperatorContext, x: Expr, place: int) -> Expr:
    """Return x plus an input that may be left out."""
    more = optional(op, f"input {place}")
    return x if more is None else x + more


@operator("com.microsoft.Gelu", "com.microsoft.BiasGelu")
def exact_gelu(op: OperatorContext) -> Expr:
    """x · Φ(x), of x plus a bias where one is given."""
    return gelu(_plus(op, required(op, "input 0"), 1))


@operator("com.microsoft.FastGelu")
def fast_gelu(op: OperatorContext) -> Expr:
    """x · Φ(x) by the approximation with tanh, of x plus a bias where one is given."""
    return gelu(_plus(op, required(op, "input 0"), 1), approximate=True)


@operator("com.microsoft.QuickGelu")
def quick_gelu(op: OperatorContext) -> Expr:
    """x · sigmoid(alpha · x)."""
    x = required(op, "input 0")
    return x * sigmoid(op.number("alpha", 1.702) * x)


@operator("com.microsoft.FusedMatMul")
def fused_product(op: OperatorContext) -> Expr:
    """alpha · A · B; either may be transposed at its last two axes."""
    op.only("transBatchA", 0)
    op.only("transBatchB", 0)
    a, b = (
        transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)) if op.integer(name, 0) and x.ndim > 1 else x
        for x, name in ((required(op, "input 0"), "transA"), (required(op, "input 1"), "transB"))
    )
    alpha = op.number("alpha", 1.0)
    return a @ b if alpha == 1 else alpha * (a @ b)


@operator("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """Layer normalization of input + skip + bias; then the mean, 1 / √(variance + ε) and that sum where used."""
    total = _plus(op, required(op, "input 0") + required(op, "input 1"), 4)
    epsilon = op.number("epsilon", 1e-12)
    y = layer_norm(total, required(op, "input 2"), optional(op, "input 3"), axes=1, epsilon=epsilon)
    count = len(op.definition.outputs)
    if count == 1:
        return (y,)
    return (y, mean(total, -1, keepdims=True), rsqrt(var(total, -1, keepdims=True) + epsilon), total)[:count]


@operator("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_rms_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """Normalization of input + skip + bias by its root mean square; then the mean, its inverse, and that sum."""
    total = _plus(op, required(op, "input 0") + required(op, "input 1"), 3)
    epsilon = op.number("epsilon", 1e-12)
    y = rms_norm(total, required(op, "input 2"), axes=1, epsilon=epsilon)
    count = len(op.definition.outputs)
    if count == 1:
        return (y,)
    inverse = rsqrt(mean(total * total, -1, keepdims=True) + epsilon)
    return (y, mean(total, -1, keepdims=True), inverse, total)[:count]


@operator("com.microsoft.MatMulNBits")
def product_with_narrow_weights(op: OperatorContext) -> Expr:
    """A · Bᵀ, with rows of B in blocks of 4 or 8 bits that have a scale, and a zero point, each."""
    a, packed, scales = required(op, "input 0"), required(op, "input 1"), required(op, "input 2")
    rows, depth, size, bits = (op.integer(name) for name in ("N", "K", "block_size", "bits"))
    if bits not in (4, 8) or packed.dtype != np.uint8 or optional(op, "input 4") is not None:
        raise OperandError(
            f"bits={bits}, B of {packed.dtype.name}",
            rule="MatMulNBits must have B of 4 or 8 bits in uint8, not regrouped",
        )
    blocks = -(-depth // size)
    weights = reshape(_numbers(packed, bits), (rows, blocks, size))
    zero = optional(op, "input 3")
    if zero is None:
        middle = cast(weights, a.dtype) - float(1 << (bits - 1))
    elif zero.dtype == np.uint8:
        # each row of zero points is packed by itself, its last byte half filled where their number is odd
        points = reshape(_numbers(reshape(zero, (rows, zero.size // rows)), bits), (rows, -1))[:, :blocks]
        middle = cast(weights, a.dtype) - cast(reshape(points, (rows, blocks, 1)), a.dtype)
    else:
        middle = cast(weights, a.dtype) - cast(reshape(zero, (rows, blocks, 1)), a.dtype)
    matrix = reshape(middle * reshape(scales, (rows, blocks, 1)), (rows, blocks * size))[:, :depth]
    return _plus(op, a @ transpose(matrix, (1, 0)), 5)


def _numbers(packed: Expr, bits: int) -> Expr:
    """Return the numbers in bytes along the last axis; of two in a byte the lower half comes first."""
    if bits == 8:
        return packed
    halves = stack([packed & np.uint8(15), packed >> np.uint8(4)], packed.ndim)
    return reshape(halves, (*packed.shape[:-1], 2 * packed.shape[-1]))
