"""Attention of the domain com.microsoft, with rotary embeddings, masks and past keys.

Attention is recorded as products, softmax and reshapes. Keys and values of earlier runs (``past``) are either
concatenated with the new ones, or stored in one buffer with them (buffered_attention.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.attention_heads import (
    check_bias,
    joined_heads,
    rotated,
    scale_of,
    split_heads,
)
from explorer.formats.onnx.operators.microsoft.buffered_attention import attended_in_buffer
from explorer.net.operators.signature import Ints, Outputs, Unused
from explorer.ops.base import reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import expand_dims
from explorer.ops.nn.attention import attention


@dataclass(frozen=True)
class ScoreAttributes:
    """Attributes that affect attention scores."""

    scale: float = 0.0
    """factor applied to the scores; 0 means 1/√features"""
    unidirectional: int = 0
    """whether a step attends only to itself and earlier steps"""
    mask_filter_value: float = -10000.0
    """number added to the scores of masked keys"""


@operator("com.microsoft.RotaryEmbedding")
def rotary_embedding(
    input: Expr,
    position_ids: Expr,
    cos_cache: Expr,
    sin_cache: Expr,
    *,
    interleaved: int = 0,
    is_packed_batching: Literal[0] = 0,
    num_heads: int = 0,
    rotary_embedding_dim: int = 0,
    scale: float = 1.0,
) -> Expr:
    """Rotate pairs of features by angles that increase with the position.

    With ``interleaved``, a pair consists of adjacent features.
    """
    if scale != 1:
        raise OperandError(f"scale={scale}", rule="RotaryEmbedding: scale must be 1.0")
    x, positions = input, position_ids
    size = rotary_embedding_dim or 2 * cos_cache.shape[-1]
    heads = x if x.ndim == 4 else split_heads(x, num_heads or x.shape[-1] // size)
    # a single number is the position of the first step
    if positions.size == 1:
        positions = reshape(positions, (1, 1)) + np.arange(heads.shape[2], dtype=positions.dtype)
    result = rotated(heads, positions, cos_cache, sin_cache, bool(interleaved))
    return result if x.ndim == 4 else joined_heads(result)


@operator("com.microsoft.MultiHeadAttention")
def multi_head_attention(
    query: Expr | None,
    key: Expr | None = None,
    value: Expr | None = None,
    bias: Expr | None = None,
    key_padding_mask: Expr | None = None,
    attention_bias: Expr | None = None,
    past_key: Expr | None = None,
    past_value: Expr | None = None,
    past_sequence_length: Expr | None = None,
    cache_indirection: None = None,
    *,
    num_heads: int,
    attributes: ScoreAttributes,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Return the attended values (N, steps, features), and all past and new keys and values split into heads."""
    q, k, v = _unpacked(query, key, value, num_heads)
    if k.ndim == 3:
        check_bias(bias, q, k, v)
    if bias is not None:
        first = q.shape[-1]
        q = q + bias[:first]
        if k.ndim == 3:
            second = first + k.shape[-1]
            k, v = k + bias[first:second], v + bias[second:]
    q = split_heads(q, num_heads)
    k, v = (split_heads(x, num_heads) if x.ndim == 3 else x for x in (k, v))
    if past_sequence_length is not None:
        if attributes.unidirectional:
            raise OperandError("unidirectional=1", rule="unidirectional must be 0 if past_sequence_length is given")
        past, mask = (past_key, past_value), key_padding_mask
        result = attended_in_buffer((q, k, v), past, past_sequence_length, mask, attention_bias, attributes.scale)
        return result[:outputs]
    past_steps = 0 if past_key is None else past_key.shape[2]
    k, v = _with_past(past_key, k), _with_past(past_value, v)
    mask = _mask_scores(key_padding_mask, q, k, attributes.mask_filter_value)
    return (_attended(q, k, v, mask, attention_bias, past_steps, attributes), k, v)[:outputs]


def _unpacked(query: Expr | None, key: Expr | None, value: Expr | None, count: int) -> tuple[Expr, Expr, Expr]:
    """Return queries, keys and values; one operand may pack 2 or 3 of them: (N, steps, heads, 2 or 3, head size)."""
    if query is not None and query.ndim == 5 and key is None and value is None:
        parts = _unpacked_parts(query, 3, count)
        if parts:
            return parts[0], parts[1], parts[2]
    if query is not None and query.ndim == 3 and key is not None and key.ndim == 5 and value is None:
        parts = _unpacked_parts(key, 2, count)
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
            rule="MultiHeadAttention: query, key and value must be (N, steps, features); keys and values may also be "
            f"(N, heads, steps, features), or packed as (N, steps, {count}, 2, features); all three may be packed as "
            f"(N, steps, {count}, 3, features)",
        )
    return query, key, value


def _unpacked_parts(packed: Expr, number: int, count: int) -> list[Expr]:
    """Return the packed operands, each (N, steps, features); an empty list if the shape does not match."""
    n, steps, heads, parts, features = packed.shape
    if (heads, parts) != (count, number):
        return []
    return [reshape(packed[:, :, :, part], (n, steps, heads * features)) for part in range(number)]


@operator("com.microsoft.Attention")
def self_attention(
    input: Expr,
    weights: Expr,
    bias: Expr | None = None,
    mask_index: Expr | None = None,
    past: Expr | None = None,
    attention_bias: Expr | None = None,
    past_sequence_length: None = None,
    *,
    num_heads: int,
    attributes: ScoreAttributes,
    qkv_hidden_sizes: Ints | None = None,
    do_rotary: Literal[0] = 0,
    past_present_share_buffer: Literal[0] = 0,
    rotary_embedding_dim: Unused,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Return self-attention; queries, keys and values are computed as one product with ``input``."""
    if input.ndim != 3 or weights.ndim != 2:
        raise OperandError(
            f"input {input.type}, weights {weights.type}",
            rule="Attention: the input must be (N, steps, features), and the weights must be a matrix",
        )
    features = weights.shape[-1]
    sizes = (features // 3,) * 3 if qkv_hidden_sizes is None else qkv_hidden_sizes
    if len(sizes) != 3 or sum(sizes) != features:
        raise OperandError(f"qkv_hidden_sizes={sizes}", rule=f"Attention: the three sizes must add up to {features}")
    check_bias(bias, weights)
    product = input @ weights if bias is None else input @ weights + bias
    # The product contains queries, keys and values, concatenated along the last axis.
    ends = np.cumsum(sizes).tolist()
    parts = [product[..., end - size : end] for end, size in zip(ends, sizes, strict=True)]
    query, key, value = (split_heads(part, num_heads) for part in parts)
    if past is not None and (past.ndim != 5 or past.shape[0] != 2):
        raise OperandError(
            f"a past {past.type}", rule="Attention: the past must be (2, N, heads, steps, features per head)"
        )
    if past is not None:
        key, value = _with_past(past[0], key), _with_past(past[1], value)
    past_steps = 0 if past is None else past.shape[3]
    mask = _mask_scores(mask_index, query, key, attributes.mask_filter_value, has_starts=True)
    result = _attended(query, key, value, mask, attention_bias, past_steps, attributes)
    return (result, stack([key, value], 0)) if outputs > 1 else (result,)


def _attended(
    query: Expr,
    key: Expr,
    value: Expr,
    mask: Expr | None,
    bias: Expr | None,
    past_steps: int,
    attributes: ScoreAttributes,
) -> Expr:
    """Return the attended values with joined heads; the first ``past_steps`` keys are from earlier runs.

    ``mask`` and ``bias`` are added to the scores.
    """
    scores = mask if bias is None else bias if mask is None else bias + mask
    steps, total = query.shape[2], key.shape[2]
    if attributes.unidirectional:
        if steps not in (1, total - past_steps):
            raise OperandError(
                f"{steps} steps of queries with {total - past_steps} of keys, and unidirectional=1",
                rule="with unidirectional=1 the query must have one step, or as many steps as the new keys",
            )
        claim_constant("a causal mask", steps * total, 1)
        # every step may attend to all past steps
        is_seen = np.tri(steps, total, total - steps, dtype=bool)
        causal_scores = np.where(is_seen, np.float32(0), np.float32(-np.inf))
        scores = tensor(causal_scores) if scores is None else scores + causal_scores
    return joined_heads(attention(query, key, value, scores, scale=scale_of(attributes.scale, query)))


def _with_past(past: Expr | None, x: Expr) -> Expr:
    """Return past keys or values followed by the new ones, ``x``; both are already split into heads."""
    if past is None:
        return x
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*x.shape[:2], x.shape[3]):
        raise OperandError(
            f"a past {past.type} for {x.type}",
            rule="past keys and values must be (N, heads, steps, features per head)",
        )
    return concatenate([past, x], 2) if past.shape[2] else x


def _mask_scores(
    mask: Expr | None, query: Expr, key: Expr, mask_value: float, *, has_starts: bool = False
) -> Expr | None:
    """Return the numbers that ``mask`` adds to the scores (N, heads, queries, keys).

    A mask is 1 for visible keys, or a list of sequence lengths, optionally followed by start positions.
    """
    if mask is None or mask.ndim >= 4:
        return mask
    if not mask.ndim or mask.dtype.kind not in "iu":
        raise OperandError(
            f"a mask {mask.type}",
            rule="a mask of integers must have one to three axes; a mask with four axes is added to scores",
        )
    sequences, steps = query.shape[0], key.shape[2]
    positions = np.arange(steps, dtype=mask.dtype)
    if mask.ndim == 1:
        with_starts = has_starts and mask.size == 2 * sequences
        if mask.size != sequences and not with_starts:
            raise OperandError(
                f"a mask {mask.type} for {sequences} sequences",
                rule="a mask with one axis must have one length per sequence; in Attention, start positions may follow",
            )
        is_visible = reshape(mask[:sequences], (-1, 1)) > positions
        if with_starts:
            is_visible = is_visible & (reshape(mask[sequences:], (-1, 1)) <= positions)
    else:
        is_visible = mask > 0
    added = where(is_visible, np.float32(0), np.float32(mask_value))
    return expand_dims(added, 1) if mask.ndim == 3 else reshape(added, (added.shape[0], 1, 1, steps))
