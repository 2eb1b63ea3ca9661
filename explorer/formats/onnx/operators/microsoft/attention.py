"""Attention of the domain com.microsoft: heads are split, turned by their positions, attended and joined again.

Each is recorded as the products, the softmax and the movements that it stands for. Keys and values of earlier runs
(``past``) come before the new ones; a cache that a run would write into is refused.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.common.known_inputs import optional, required
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.reshape import expand_dims, transpose
from explorer.ops.nn.attention import attention

_HIDDEN = -10000.0
"""number that is added to the scores of keys that a mask hides, by default"""


@operator("com.microsoft.RotaryEmbedding")
def rotary_embedding(op: OperatorContext) -> Expr:
    """Pairs of features turned by angles that grow with the position; ``interleaved`` pairs are neighbours."""
    op.only("is_packed_batching", 0)
    op.only("scale", 1.0)
    x, places = required(op, "input 0"), required(op, "input 1")
    cosines, sines = required(op, "input 2"), required(op, "input 3")
    count, size = op.integer("num_heads", 0), op.integer("rotary_embedding_dim", 0)
    heads = x if x.ndim == 4 else split_heads(x, count or x.shape[-1] // (size or 2 * cosines.shape[-1]))
    steps = heads.shape[2]
    # One number is the position of the first step.
    if places.size == 1:
        places = reshape(places, (1, 1)) + np.arange(steps, dtype=places.dtype)
    turned = turned_by_places(heads, places, cosines, sines, bool(op.integer("interleaved", 0)))
    return turned if x.ndim == 4 else joined_heads(turned)


@operator("com.microsoft.MultiHeadAttention")
def multi_head_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of queries to keys and values, each (N, steps, features), in heads; then keys and values by heads."""
    _refuse(op, {8: "past_sequence_length", 9: "cache_indirection"})
    count = op.integer("num_heads")
    query, key, value = (optional(op, f"input {place}") for place in range(3))
    if query is None or key is None or value is None or query.ndim != 3 or key.ndim != value.ndim or key.ndim < 3:
        raise OperandError(
            "packed operands",
            rule="MultiHeadAttention: query, key and value must be (N, steps, features); keys and values may be by "
            "heads, (N, heads, steps, features)",
        )
    bias = optional(op, "input 3")
    if bias is not None:
        first = query.shape[-1]
        query = query + bias[:first]
        if key.ndim == 3:
            second = first + key.shape[-1]
            key, value = key + bias[first:second], value + bias[second:]
    query = split_heads(query, count)
    key, value = (split_heads(x, count) if x.ndim == 3 else x for x in (key, value))
    past = [optional(op, f"input {place}") for place in (6, 7)]
    key, value = (_behind(op, *each) for each in zip(past, (key, value), strict=True))
    earlier = 0 if past[0] is None else past[0].shape[2]
    return _attended(op, query, key, value, optional(op, "input 4"), earlier)


@operator("com.microsoft.Attention")
def self_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of steps to each other: queries, keys and values are one product of the input."""
    _refuse(op, {6: "past_sequence_length"})
    op.only("do_rotary", 0)
    x, weights, bias = required(op, "input 0"), required(op, "input 1"), optional(op, "input 2")
    count, features = op.integer("num_heads"), weights.shape[-1]
    sizes = op.integers("qkv_hidden_sizes", (features // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != features:
        raise OperandError(f"qkv_hidden_sizes={sizes}", rule=f"Attention: the three sizes must add up to {features}")
    product = x @ weights if bias is None else x @ weights + bias
    # One product gives all three, next to each other along the last axis.
    ends = np.cumsum(sizes).tolist()
    parts = [product[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]
    query, key, value = (split_heads(part, count) for part in parts)
    past = optional(op, "input 4")
    if past is not None:
        key, value = _behind(op, past[0], key), _behind(op, past[1], value)
    earlier = 0 if past is None else past.shape[3]
    result = _attended(op, query, key, value, optional(op, "input 3"), earlier)
    return (result[0], stack([key, value], 0)) if len(op.definition.outputs) > 1 else result


def _attended(
    op: OperatorContext, query: Expr, key: Expr, value: Expr, mask: Expr | None, earlier: int
) -> tuple[Expr, ...]:
    """Return the joined heads, then keys and values as far as they are used, of which some are of an earlier run."""
    scores = optional(op, "input 5")
    if mask is not None:
        hidden = _hidden(op, mask, query.shape[0], key.shape[2]) if mask.ndim < 4 else mask
        scores = hidden if scores is None else scores + hidden
    steps, total = query.shape[2], key.shape[2]
    if op.integer("unidirectional", 0):
        if steps not in (1, total - earlier):
            raise OperandError(
                f"{steps} steps of queries with {total - earlier} of keys, and unidirectional=1",
                rule=f"{op.definition.type}: which keys a step may see is known for one step, or as many keys as steps",
            )
        claim_constant("a causal mask", steps * total, 1)
        # a step comes behind all steps of the past
        seen = np.tri(steps, total, total - steps, dtype=bool)
        late = np.where(seen, np.float32(0), np.float32(-np.inf))
        scores = tensor(late) if scores is None else scores + late
    result = joined_heads(attention(query, key, value, scores, scale=scale_of(op, query)))
    return (result, key, value)[: len(op.definition.outputs)]


def _behind(op: OperatorContext, past: Expr | None, x: Expr) -> Expr:
    """Return keys or values of earlier runs with the new ones behind them, by heads."""
    if past is None:
        return x
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*x.shape[:2], x.shape[3]):
        raise OperandError(
            f"a past {past.type} for {x.type}",
            rule=f"{op.definition.type}: keys and values of the past must be (N, heads, steps, features of a head)",
        )
    return concatenate([past, x], 2) if past.shape[2] else x


def _hidden(op: OperatorContext, mask: Expr, members: int, steps: int) -> Expr:
    """Return what is added to scores (N, heads, queries, keys): a mask has 1 for keys that count, or lengths.

    Behind the lengths, which are ends, there may be as many starts.
    """
    places = np.arange(steps, dtype=mask.dtype)
    if mask.ndim == 1:
        with_starts = mask.size == 2 * members and op.definition.type == "com.microsoft.Attention"
        if mask.size != members and not with_starts:
            raise OperandError(
                f"a mask {mask.type} for {members} sequences",
                rule=f"{op.definition.type}: a mask of one axis must have a length for each sequence; in Attention "
                "starts may follow",
            )
        counts = reshape(mask[:members], (-1, 1)) > places
        if with_starts:
            counts = counts & (reshape(mask[members:], (-1, 1)) <= places)
    else:
        counts = mask > 0
    added = where(counts, np.float32(0), np.float32(op.number("mask_filter_value", _HIDDEN)))
    return expand_dims(added, 1) if mask.ndim == 3 else reshape(added, (added.shape[0], 1, 1, steps))


def turned_by_places(x: Expr, places: Expr, cosines: Expr, sines: Expr, is_interleaved: bool) -> Expr:
    """Turn pairs of features of (N, heads, steps, features) by the angles of the positions (N, steps)."""
    half = cosines.shape[-1]
    cos, sin = (expand_dims(take(table, cast(places, np.dtype(np.int64)), 0), 1) for table in (cosines, sines))
    # Where the tables are shorter than a head, its last features are not turned.
    front, rest = x[..., : 2 * half], x[..., 2 * half :]
    if is_interleaved:
        first, second = front[..., ::2], front[..., 1::2]
    else:
        first, second = front[..., :half], front[..., half:]
    turned = first * cos - second * sin, first * sin + second * cos
    pairs = stack([*turned], x.ndim) if is_interleaved else concatenate([*turned], -1)
    front = reshape(pairs, front.shape)
    return concatenate([front, rest], -1) if rest.shape[-1] else front


def split_heads(x: Expr, count: int) -> Expr:
    """Split (N, steps, features) into (N, heads, steps, features of a head)."""
    n, steps, features = x.shape
    if count < 1 or features % count:
        raise OperandError(f"{count} heads of {x.type}", rule="the number of heads must divide the features")
    return transpose(reshape(x, (n, steps, count, features // count)), (0, 2, 1, 3))


def joined_heads(x: Expr) -> Expr:
    """Join the heads of (N, heads, steps, features) to (N, steps, all features)."""
    n, count, steps, features = x.shape
    return reshape(transpose(x, (0, 2, 1, 3)), (n, steps, count * features))


def scale_of(op: OperatorContext, query: Expr) -> float:
    """Return the factor of scores: 1/√features where the file has none, or 0."""
    return op.number("scale", 0.0) or 1 / math.sqrt(max(query.shape[-1], 1))


def _refuse(op: OperatorContext, places: dict[int, str]) -> None:
    """Raise OperandError for inputs that are not read."""
    for place, name in places.items():
        if optional(op, f"input {place}") is not None:
            raise OperandError(f"{name} is given", rule=f"{op.definition.type}: {name} must be left out")
