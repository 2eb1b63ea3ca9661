"""Attention of the domain com.microsoft: heads are split, turned by their positions, attended and joined again.

Each is recorded as the products, the softmax and the movements that it stands for. Keys and values of earlier runs
(``past``) come before the new ones, or lie in a buffer with room for those (shared_buffers.py).
"""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.heads import (
    check_bias,
    joined_heads,
    scale_of,
    split_heads,
    turned_by_places,
)
from explorer.formats.onnx.operators.microsoft.shared_buffers import attended_in_buffer
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import expand_dims
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


@operator("com.microsoft.MultiHeadAttention", ignored=("mask_filter_value",))
def multi_head_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of queries to keys and values, each (N, steps, features), in heads; then keys and values by heads."""
    _refuse(op, {9: "cache_indirection"})
    count = op.integer("num_heads")
    query, key, value = _unpacked(op, count)
    bias = optional(op, "input 3")
    if key.ndim == 3:
        check_bias(op, bias, query, key, value)
    if bias is not None:
        first = query.shape[-1]
        query = query + bias[:first]
        if key.ndim == 3:
            second = first + key.shape[-1]
            key, value = key + bias[first:second], value + bias[second:]
    query = split_heads(query, count)
    key, value = (split_heads(x, count) if x.ndim == 3 else x for x in (key, value))
    past = [optional(op, f"input {place}") for place in (6, 7)]
    length = optional(op, "input 8")
    if length is not None:
        op.only("unidirectional", 0)
        return attended_in_buffer(
            op, (query, key, value), past, length, optional(op, "input 4"), optional(op, "input 5")
        )
    key, value = (_behind(op, *each) for each in zip(past, (key, value), strict=True))
    earlier = 0 if past[0] is None else past[0].shape[2]
    return _attended(op, query, key, value, optional(op, "input 4"), earlier)


def _unpacked(op: OperatorContext, count: int) -> tuple[Expr, Expr, Expr]:
    """Return queries, keys and values; one operand may hold all three, or keys and values, by heads: (N, steps, heads,
    3 or 2, features of a head)."""
    query, key, value = (optional(op, f"input {place}") for place in range(3))
    if query is not None and query.ndim == 5 and key is None and value is None:
        parts = _parts(query, 3, count)
        if parts:
            return parts[0], parts[1], parts[2]
    if query is not None and query.ndim == 3 and key is not None and key.ndim == 5 and value is None:
        parts = _parts(key, 2, count)
        if parts:
            return query, parts[0], parts[1]
    if (
        query is None
        or key is None
        or value is None
        or query.ndim != 3
        or key.ndim != value.ndim
        or key.ndim not in (3, 4)
    ):
        types = ", ".join("none" if x is None else str(x.type) for x in (query, key, value))
        raise OperandError(
            f"query, key and value: {types}",
            rule="MultiHeadAttention: query, key and value must be (N, steps, features); keys and values may be by "
            f"heads, (N, heads, steps, features), or packed, (N, steps, {count}, 2, features), as all three may be, "
            f"(N, steps, {count}, 3, features)",
        )
    return query, key, value


def _parts(packed: Expr, number: int, count: int) -> list[Expr]:
    """Return the operands that one holds, each (N, steps, features); none where it is not of that form."""
    n, steps, heads, parts, features = packed.shape
    if (heads, parts) != (count, number):
        return []
    return [reshape(packed[:, :, :, place], (n, steps, heads * features)) for place in range(number)]


@operator("com.microsoft.Attention", ignored=("mask_filter_value", "rotary_embedding_dim"))
def self_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of steps to each other: queries, keys and values are one product of the input."""
    _refuse(op, {6: "past_sequence_length"})
    op.only("do_rotary", 0)
    op.only("past_present_share_buffer", 0)
    x, weights, bias = required(op, "input 0"), required(op, "input 1"), optional(op, "input 2")
    if x.ndim != 3 or weights.ndim != 2:
        raise OperandError(
            f"input {x.type}, weights {weights.type}",
            rule="Attention: the input must be (N, steps, features), the weights a matrix",
        )
    count, features = op.integer("num_heads"), weights.shape[-1]
    sizes = op.integers("qkv_hidden_sizes", (features // 3,) * 3)
    if len(sizes) != 3 or sum(sizes) != features:
        raise OperandError(f"qkv_hidden_sizes={sizes}", rule=f"Attention: the three sizes must add up to {features}")
    check_bias(op, bias, weights)
    product = x @ weights if bias is None else x @ weights + bias
    # One product gives all three, next to each other along the last axis.
    ends = np.cumsum(sizes).tolist()
    parts = [product[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]
    query, key, value = (split_heads(part, count) for part in parts)
    past = optional(op, "input 4")
    if past is not None and (past.ndim != 5 or past.shape[0] != 2):
        raise OperandError(
            f"a past {past.type}", rule="Attention: the past must be (2, N, heads, steps, features of a head)"
        )
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
    if not mask.ndim or mask.dtype.kind not in "iu":
        raise OperandError(
            f"a mask {mask.type}",
            rule=f"{op.definition.type}: a mask of whole numbers must have one axis to three; one of four is added",
        )
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


def _refuse(op: OperatorContext, places: dict[int, str]) -> None:
    """Raise OperandError for inputs that are not read."""
    for place, name in places.items():
        if optional(op, f"input {place}") is not None:
            raise OperandError(f"{name} is given", rule=f"{op.definition.type}: {name} must be left out")
