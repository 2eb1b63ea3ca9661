"""Fused operators of the domain com.microsoft, written by ONNX Runtime's optimizers.

They are recorded as the equivalent standard operations, which plans can fuse again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.custom_dtypes import accumulator_dtype
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.onnx.operators.base.general_product import general_product
from explorer.formats.onnx.operators.base.stash_type import FLOAT, in_stash_dtype, stashed
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.windows.conv import convolution
from explorer.formats.onnx.operators.windows.window_attributes import WindowAttributes
from explorer.net.operators.signature import Outputs, Unused
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


def _plus(x: Expr, more: Expr | None) -> Expr:
    return x if more is None else x + more


@operator("com.microsoft.Gelu", "com.microsoft.BiasGelu")
def exact_gelu(A: Expr, B: Expr | None = None) -> Expr:
    """Return z · Φ(z) for z = A + B; Φ is the cumulative normal distribution."""
    return gelu(_plus(A, B))


@operator("com.microsoft.FastGelu")
def fast_gelu(X: Expr, bias: Expr | None = None) -> Expr:
    """Return the tanh approximation of z · Φ(z) for z = X + bias."""
    return gelu(_plus(X, bias), approximate=True)


@operator("com.microsoft.QuickGelu")
def quick_gelu(X: Expr, *, alpha: float = 1.702) -> Expr:
    """Return x · sigmoid(``alpha`` · x)."""
    return X * sigmoid(alpha * X)


@operator("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul")
def fused_product(
    A: Expr,
    B: Expr,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Expr:
    """Return ``alpha`` · A · B.

    ``transBatchA`` and ``transBatchB`` move the first axis of an operand before its last axis; then ``transA`` and
    ``transB`` swap the last two axes.
    """
    product = _transposed(A, transA, transBatchA) @ _transposed(B, transB, transBatchB)
    return product if alpha == 1 else alpha * product


def _transposed(x: Expr, last_axes: int, first_axis: int) -> Expr:
    if x.ndim > 1 and first_axis:
        x = transpose(x, (*range(1, x.ndim - 1), 0, x.ndim - 1))
    if x.ndim > 1 and last_axes:
        x = transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))
    return x


@operator("com.microsoft.FusedConv")
def fused_convolution(
    X: Expr,
    W: Expr,
    B: Expr | None = None,
    Z: Expr | None = None,
    *,
    window: WindowAttributes,
    group: int = 1,
    activation: str = "",
    activation_params: tuple[float, ...] = (),
) -> Expr:
    """Add B and Z to a convolution, and return the activation of the sum."""
    y = convolution(X, W, B, window=window, group=group)
    return _activated(_plus(y, Z), activation, activation_params)


@operator("com.microsoft.FusedGemm")
def fused_general_product(
    A: Expr,
    B: Expr,
    C: Expr | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    activation: str = "",
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
) -> Expr:
    """Return the activation of ``alpha`` · A · B + ``beta`` · C; A and B may be transposed."""
    y = general_product(A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    parameters = activation_alpha, activation_beta, activation_gamma
    return _activated(y, activation, [value for value in parameters if value is not None])


_ACTIVATIONS: dict[str, tuple[tuple[float, ...], Callable[..., Expr]]] = {
    "": ((), lambda x: x),
    "Relu": ((), relu),
    "Tanh": ((), tanh),
    "Sigmoid": ((), sigmoid),
    "LeakyRelu": ((0.01,), leaky_relu),
    "HardSigmoid": ((0.2, 0.5), lambda x, alpha, beta: clip(alpha * x + beta, 0.0, 1.0)),
    "Clip": ((-math.inf, math.inf), clip),
}
"""(defaults of the parameters, activation) by name"""


def _activated(x: Expr, name: str, parameters: Sequence[float]) -> Expr:
    if name not in _ACTIVATIONS:
        raise OperandError(
            f"activation={name!r:.80}",
            rule=f"the activation must be one of {', '.join(filter(None, _ACTIVATIONS))}",
        )
    defaults, activation = _ACTIVATIONS[name]
    return activation(x, *(*parameters, *defaults[len(parameters) :])[: len(defaults)])


@operator("SimplifiedLayerNormalization", "com.microsoft.SimplifiedLayerNormalization")
def simplified_normalization(
    X: Expr, scale: Expr, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = FLOAT, outputs: Outputs
) -> tuple[Expr, ...]:
    """Return x / √(mean x² + ε) · scale over ``axis`` and all later axes; if used, also return 1 / √(mean x² + ε)."""
    axis = normalize_axis(axis, X.ndim, "SimplifiedLayerNormalization")
    wide = in_stash_dtype(X, stash_type)
    y = cast(rms_norm(wide, scale, axes=X.ndim - axis, epsilon=epsilon), np.result_type(X.dtype, scale.dtype))
    if outputs == 1:
        return (y,)
    inverse = rsqrt(mean(wide * wide, tuple(range(axis, X.ndim)), keepdims=True) + epsilon)
    return y, stashed(inverse, stash_type)


@operator("com.microsoft.EmbedLayerNormalization")
def normalized_embedding(
    input_ids: Expr,
    segment_ids: Expr | None,
    word_embedding: Expr,
    position_embedding: Expr,
    segment_embedding: Expr | None,
    gamma: Expr,
    beta: Expr | None = None,
    mask: Expr | None = None,
    position_ids: Expr | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: Unused,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Return the normalized sum of word, position and segment embeddings, the sequence lengths, and the sum itself."""
    if input_ids.ndim != 2:
        raise OperandError(
            f"input_ids of {input_ids.type}", rule="EmbedLayerNormalization: input_ids must be (N, steps)"
        )
    if position_ids is None:
        positions = position_embedding[: input_ids.shape[1]]
    else:
        positions = take(position_embedding, position_ids, 0)
    total = take(word_embedding, input_ids, 0) + positions
    if segment_ids is not None and segment_embedding is not None:
        total = total + take(segment_embedding, segment_ids, 0)
    y = layer_norm(total, gamma, beta, axes=1, epsilon=epsilon)
    if outputs == 1:
        return (y,)
    lengths = full(input_ids.shape[:1], 0, np.int32) if mask is None else cast(sum(mask, 1), np.dtype(np.int32))
    return (y, lengths, total)[:outputs]


@operator("com.microsoft.SkipLayerNormalization")
def skip_layer_normalization(
    input: Expr,
    skip: Expr,
    gamma: Expr,
    beta: Expr | None = None,
    bias: Expr | None = None,
    *,
    epsilon: float = 1e-12,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Return the layer normalization of input + skip + bias and, if used, mean, 1 / √(variance + ε) and the sum."""
    total = _skipped(input, skip, bias)
    y = cast(layer_norm(total, gamma, beta, axes=1, epsilon=epsilon), input.dtype)
    if outputs == 1:
        return (y,)
    inverse = rsqrt(var(total, -1, keepdims=True) + epsilon)
    return (y, mean(total, -1, keepdims=True), inverse, cast(total, input.dtype))[:outputs]


@operator("com.microsoft.SkipSimplifiedLayerNormalization")
def skip_rms_normalization(
    input: Expr, skip: Expr, gamma: Expr, bias: Expr | None = None, *, epsilon: float = 1e-12, outputs: Outputs
) -> tuple[Expr, ...]:
    """Return the RMS normalization of input + skip + bias and, if used, mean, 1 / √(mean square + ε) and the sum."""
    total = _skipped(input, skip, bias)
    y = cast(rms_norm(total, gamma, axes=1, epsilon=epsilon), input.dtype)
    if outputs == 1:
        return (y,)
    inverse = rsqrt(mean(total * total, -1, keepdims=True) + epsilon)
    return (y, mean(total, -1, keepdims=True), inverse, cast(total, input.dtype))[:outputs]


def _skipped(x: Expr, skip: Expr, bias: Expr | None) -> Expr:
    """Return input + skip + bias in the dtype of the statistics, at least float32."""
    return _plus(cast(x, accumulator_dtype(x.dtype)) + skip, bias)


@operator("com.microsoft.MatMulNBits")
def product_with_narrow_weights(
    A: Expr,
    B: Expr,
    scales: Expr,
    zero_points: Expr | None = None,
    g_idx: Expr | None = None,
    bias: Expr | None = None,
    *,
    N: int,
    K: int,
    block_size: int,
    bits: int,
    accuracy_level: Unused,
    weight_prepacked: Unused,
) -> Expr:
    """Return A · Bᵀ; rows of B are blocks of 4-bit or 8-bit integers, each with a scale and a zero point."""
    if bits not in (4, 8) or B.dtype != np.uint8 or g_idx is not None:
        raise OperandError(
            f"bits={bits}, B of {B.dtype.name}",
            rule="MatMulNBits: B must contain 4-bit or 8-bit integers in uint8, and g_idx must be omitted",
        )
    blocks = -(-K // block_size)
    weights = cast(reshape(_unpacked(B, bits), (N, blocks, block_size)), A.dtype)
    if zero_points is None:
        centred = weights - float(1 << (bits - 1))
    else:
        if zero_points.dtype == np.uint8:
            # each row of zero points is packed separately, so its last byte may be half empty
            rows = reshape(zero_points, (N, zero_points.size // N))
            zero_points = reshape(_unpacked(rows, bits), (N, -1))[:, :blocks]
        centred = weights - cast(reshape(zero_points, (N, blocks, 1)), A.dtype)
    matrix = reshape(centred * reshape(scales, (N, blocks, 1)), (N, blocks * block_size))[:, :K]
    return _plus(A @ transpose(matrix, (1, 0)), bias)


def _unpacked(packed: Expr, bits: int) -> Expr:
    """Return the ``bits``-bit integers packed along the last axis, low bits of a byte first."""
    if bits == 8:
        return packed
    halves = stack([packed & np.uint8(15), packed >> np.uint8(4)], packed.ndim)
    return reshape(halves, (*packed.shape[:-1], 2 * packed.shape[-1]))
