"""Operators of the domain com.microsoft, which ONNX Runtime's optimizers write in place of several of the standard.

The onnx package has no schemas of that domain: inputs go by their position, ``input 0``, ``input 1``, …

Each is written out in the standard's operations, which plans fuse as they do for any other program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.general_product import general_product
from explorer.formats.onnx.operators.base.stash_type import FLOAT, in_stash_dtype, stashed
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.conv import convolution
from explorer.formats.onnx.operators.windows.window_attributes import window_of
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.base import cast, reshape
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.trigonometric_and_logs import rsqrt
from explorer.ops.elementwise.unary import relu, sigmoid, tanh
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.reshape import transpose
from explorer.ops.nn.activation import clip, gelu, leaky_relu
from explorer.ops.nn.normalization import layer_norm, rms_norm
from explorer.ops.reduction.reduce import mean, sum
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


@operator("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_product(op: OperatorContext) -> Expr:
    """alpha · A · B; either may be transposed at its last two axes, after its first axis was moved before the last."""
    a, b = (_transposed(op, required(op, f"input {place}"), name) for place, name in enumerate("AB"))
    alpha = op.number("alpha", 1.0)
    return a @ b if alpha == 1 else alpha * (a @ b)


def _transposed(op: OperatorContext, x: Expr, name: str) -> Expr:
    if x.ndim > 1 and op.integer(f"transBatch{name}", 0):
        x = transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))
    if x.ndim > 1 and op.integer(f"trans{name}", 0):
        x = transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return x


@operator("com.microsoft.FusedConv")
def fused_convolution(op: OperatorContext) -> Expr:
    """An activation of a convolution plus its bias plus another operand."""
    operands = required(op, "input 0"), required(op, "input 1"), optional(op, "input 2")
    y = convolution(*operands, **window_of(op, "group"))
    return _activated(op, _plus(op, y, 3), tuple(op.argument("activation_params", ())))


@operator("com.microsoft.FusedGemm")
def fused_general_product(op: OperatorContext) -> Expr:
    """An activation of alpha · A · B + beta · C; A and B may be transposed."""
    names = [f"activation_{letter}" for letter in ("alpha", "beta", "gamma")]
    parameters = [op.number(name, 0.0) for name in names if op.has(name)]
    y = general_product(
        required(op, "input 0"),
        required(op, "input 1"),
        optional(op, "input 2"),
        alpha=op.number("alpha", 1.0),
        beta=op.number("beta", 1.0),
        transA=op.integer("transA", 0),
        transB=op.integer("transB", 0),
    )
    return _activated(op, y, parameters)


_ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Expr]]] = {
    "": ((), lambda x: x),
    "Relu": ((), relu),
    "Tanh": ((), tanh),
    "Sigmoid": ((), sigmoid),
    "LeakyRelu": ((0.01,), leaky_relu),
    "HardSigmoid": ((0.2, 0.5), lambda x, alpha, beta: clip(alpha * x + beta, 0.0, 1.0)),
    "Clip": ((-math.inf, math.inf), clip),
}
"""activations by their names, with the parameters that a file may leave out"""


def _activated(op: OperatorContext, x: Expr, parameters: Sequence[float]) -> Expr:
    """Return the activation that a fused operator ends with."""
    name = str(op.argument("activation", ""))
    if name not in _ACTIVATIONS:
        raise OperandError(
            f"activation={name!r:.80}",
            rule=f"{op.definition.type}: the activation must be one of {', '.join(filter(None, _ACTIVATIONS))}",
        )
    defaults, activation = _ACTIVATIONS[name]
    return activation(x, *(*parameters, *defaults[len(parameters) :])[: len(defaults)])


@operator("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def simplified_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """x / √(mean x² + ε) · scale over the axes from ``axis`` on; then 1 / √(mean x² + ε) where it is used."""
    x, epsilon = required(op, "input 0"), op.number("epsilon", 1e-5)
    axis = normalize_axis(op.integer("axis", -1), x.ndim, op.definition.type)
    wide, scale = in_stash_dtype(x, op.integer("stash_type", FLOAT)), required(op, "input 1")
    y = rms_norm(wide, scale, axes=x.ndim - axis, epsilon=epsilon)
    y = cast(y, np.result_type(x.dtype, scale.dtype))
    if len(op.definition.outputs) == 1:
        return (y,)
    statistic = rsqrt(mean(wide * wide, tuple(range(axis, x.ndim)), keepdims=True) + epsilon)
    return y, stashed(statistic, op.integer("stash_type", FLOAT))


@operator("com.microsoft.EmbedLayerNormalization", ignored=("mask_index_type",))
def normalized_embedding(op: OperatorContext) -> tuple[Expr, ...]:
    """Layer normalization of embeddings of words, positions and segments; then lengths by the mask, and that sum."""
    words = required(op, "input 0")
    segments, mask, places = (optional(op, f"input {place}") for place in (1, 7, 8))
    if words.ndim != 2:
        raise OperandError(f"input_ids of {words.type}", rule="EmbedLayerNormalization: input_ids must be (N, steps)")
    table = required(op, "input 3")
    positions = table[: words.shape[1]] if places is None else take(table, places, 0)
    total = take(required(op, "input 2"), words, 0) + positions
    if segments is not None:
        total = total + take(required(op, "input 4"), segments, 0)
    epsilon = op.number("epsilon", 1e-12)
    y = layer_norm(total, required(op, "input 5"), optional(op, "input 6"), axes=1, epsilon=epsilon)
    count = len(op.definition.outputs)
    if count == 1:
        return (y,)
    lengths = full(words.shape[:1], 0, np.int32) if mask is None else cast(sum(mask, 1), np.dtype(np.int32))
    return (y, lengths, total)[:count]


@operator("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """Layer normalization of input + skip + bias; then the mean, 1 / √(variance + ε) and that sum where used."""
    total, dtype = _skipped(op, 4)
    epsilon = op.number("epsilon", 1e-12)
    y = cast(layer_norm(total, required(op, "input 2"), optional(op, "input 3"), axes=1, epsilon=epsilon), dtype)
    count = len(op.definition.outputs)
    if count == 1:
        return (y,)
    inverse = rsqrt(var(total, -1, keepdims=True) + epsilon)
    return (y, mean(total, -1, keepdims=True), inverse, cast(total, dtype))[:count]


@operator("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_rms_normalization(op: OperatorContext) -> tuple[Expr, ...]:
    """Normalization of input + skip + bias by its root mean square; then the mean, its inverse, and that sum."""
    total, dtype = _skipped(op, 3)
    epsilon = op.number("epsilon", 1e-12)
    y = cast(rms_norm(total, required(op, "input 2"), axes=1, epsilon=epsilon), dtype)
    count = len(op.definition.outputs)
    if count == 1:
        return (y,)
    inverse = rsqrt(mean(total * total, -1, keepdims=True) + epsilon)
    return (y, mean(total, -1, keepdims=True), inverse, cast(total, dtype))[:count]


def _skipped(op: OperatorContext, bias: int) -> tuple[Expr, np.dtype[Any]]:
    """Return input + skip + bias in the dtype of their statistics, at least float32, and the dtype of the input."""
    x = required(op, "input 0")
    wide = cast(x, accumulator_dtype(x.dtype)) + required(op, "input 1")
    return _plus(op, wide, bias), x.dtype


@operator("com.microsoft.MatMulNBits", ignored=("accuracy_level", "weight_prepacked"))
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
