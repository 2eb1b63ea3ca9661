"""Helpers that split features into attention heads, rotate them by position, and join them again."""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.ops.base import cast, reshape
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.reshape import expand_dims, transpose


def rotated(x: Expr, positions: Expr, cosines: Expr, sines: Expr, is_interleaved: bool) -> Expr:
    """Return ``x`` (N, heads, steps, features) with feature pairs rotated by ``positions`` (N, steps)."""
    half = cosines.shape[-1]
    cos, sin = (expand_dims(take(table, cast(positions, np.dtype(np.int64)), 0), 1) for table in (cosines, sines))
    # If the tables are narrower than a head, its last features are not rotated.
    front, rest = x[..., : 2 * half], x[..., 2 * half :]
    if is_interleaved:
        first, second = front[..., ::2], front[..., 1::2]
    else:
        first, second = front[..., :half], front[..., half:]
    pairs = first * cos - second * sin, first * sin + second * cos
    joined = stack([*pairs], x.ndim) if is_interleaved else concatenate([*pairs], -1)
    front = reshape(joined, front.shape)
    return concatenate([front, rest], -1) if rest.shape[-1] else front


def split_heads(x: Expr, count: int) -> Expr:
    """Split (N, steps, features) into (N, heads, steps, features per head)."""
    if x.ndim != 3:
        raise OperandError(f"an operand {x.type}", rule="operands split into heads must be (N, steps, features)")
    n, steps, features = x.shape
    if count < 1 or features % count:
        raise OperandError(f"{count} heads of {x.type}", rule="the number of heads must divide the features")
    return transpose(reshape(x, (n, steps, count, features // count)), (0, 2, 1, 3))


def check_bias(bias: Expr | None, *parts: Expr) -> None:
    """Raise OperandError unless ``bias`` has one number for each feature of the concatenated operands."""
    features = sum([x.shape[-1] for x in parts])
    if bias is not None and bias.shape != (features,):
        raise OperandError(f"a bias {bias.type}", rule=f"the bias must have one axis, of {features} features")


def joined_heads(x: Expr) -> Expr:
    """Join the heads of (N, heads, steps, features) to (N, steps, heads · features)."""
    n, count, steps, features = x.shape
    return reshape(transpose(x, (0, 2, 1, 3)), (n, steps, count * features))


def scale_of(scale: float, query: Expr) -> float:
    """Return the factor applied to the scores; 0 means the default 1/√features."""
    return scale or 1 / math.sqrt(max(query.shape[-1], 1))
