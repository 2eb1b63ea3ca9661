"""Grouped-query attention of the domain com.microsoft, with a cache of keys and values from earlier runs.

The used length of the cache is an input and differs between sequences, so `where` places the new keys after the old
ones. Results are as long as the cache, or as the total length if that is larger.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.attention_heads import joined_heads, rotated, scale_of, split_heads
from explorer.net.operators.signature import Known, Outputs
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import tanh
from explorer.ops.linalg.matmul import matmul, swap
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import TakeAlong
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.rearrange import repeat
from explorer.ops.nn.activation import clip
from explorer.ops.nn.attention import attention
from explorer.ops.nn.softmax import softmax

_INT64 = np.dtype(np.int64)


@operator("com.microsoft.GroupQueryAttention")
def group_query_attention(
    query: Expr,
    key: Expr | None,
    value: Expr | None,
    past_key: Expr | None,
    past_value: Expr | None,
    seqlens_k: Expr,
    total_sequence_length: Known[int],
    cos_cache: Expr | None = None,
    sin_cache: Expr | None = None,
    position_ids: Expr | None = None,
    attention_bias: Expr | None = None,
    head_sink: Expr | None = None,
    k_scale: None = None,
    v_scale: None = None,
    *,
    num_heads: int,
    kv_num_heads: int,
    do_rotary: int = 0,
    rotary_interleaved: int = 0,
    local_window_size: int = -1,
    scale: float = 0.0,
    softcap: float = 0.0,
    smooth_softmax: int = 0,
    k_quant_type: Literal["NONE"] = "NONE",
    v_quant_type: Literal["NONE"] = "NONE",
    kv_cache_bit_width: Literal[0] = 0,
    qk_output: Literal[0] = 0,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Return causal attention in which query heads share keys and values, and the extended caches of both."""
    q, k, v = _operands(query, key, value, num_heads, kv_num_heads)
    steps, length = q.shape[2], total_sequence_length
    # seqlens_k contains each sequence's length minus one
    last = cast(reshape(seqlens_k, (-1, 1, 1, 1)), _INT64)
    is_first = steps == length
    old_length = zeros((q.shape[0], 1, 1, 1), _INT64) if is_first else last + 1 - steps
    if do_rotary:
        if cos_cache is None or sin_cache is None:
            raise OperandError("no cos_cache and sin_cache", rule="do_rotary requires cos_cache and sin_cache")
        positions = reshape(old_length, (-1, 1)) + np.arange(steps) if position_ids is None else position_ids
        q, k = (rotated(x, positions, cos_cache, sin_cache, bool(rotary_interleaved)) for x in (q, k))
    k, v = (_cached(past, x, old_length, length, is_first) for past, x in ((past_key, k), (past_value, v)))
    # a step attends to itself and earlier steps, within the window and the length of its sequence
    claim_constant("positions of a cache", steps + k.shape[2])
    positions, step_positions = tensor(np.arange(k.shape[2])), old_length + np.arange(steps).reshape(-1, 1)
    mask = (positions <= step_positions) & (positions <= last)
    if local_window_size > 0:
        mask = mask & (positions > step_positions - local_window_size)
    if head_sink is None and smooth_softmax:
        head_sink = zeros((num_heads,), q.dtype)
    factor = scale_of(scale, q)
    if attention_bias is None and not softcap and head_sink is None:
        result = attention(q, k, v, mask, scale=factor)
    else:
        result = _attended(q * factor, k, v, mask, attention_bias, head_sink, softcap)
    return (joined_heads(result), k, v)[:outputs]


def _operands(query: Expr, key: Expr | None, value: Expr | None, heads: int, shared: int) -> tuple[Expr, Expr, Expr]:
    """Return queries, keys and values split into heads; the query may contain all three, concatenated."""
    if query.ndim != 3 or min(heads, shared) < 1 or heads % shared or (key is None) != (value is None):
        raise OperandError(
            f"a query {query.type} in {heads} heads, with keys and values in {shared}",
            rule="GroupQueryAttention: the query must be (N, steps, features), kv_num_heads must divide num_heads, and "
            "key and value must be given together",
        )
    if key is not None and value is not None:
        return split_heads(query, heads), split_heads(key, shared), split_heads(value, shared)
    size, rest = divmod(query.shape[-1], heads + 2 * shared)
    if rest:
        raise OperandError(
            f"a packed query {query.type} of {heads} + 2 · {shared} heads",
            rule="GroupQueryAttention: the number of heads must divide the features",
        )
    first, second = heads * size, (heads + shared) * size
    return (
        split_heads(query[..., :first], heads),
        split_heads(query[..., first:second], shared),
        split_heads(query[..., second:], shared),
    )


def _cached(past: Expr | None, x: Expr, old_length: Expr, length: int, is_first: bool) -> Expr:
    """Return the cache with the new keys or values ``x`` after the old ones, followed by zeros."""
    steps = x.shape[2]
    if past is None:
        return x
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*x.shape[:2], x.shape[3]):
        raise OperandError(
            f"a cache {past.type} for {x.type}",
            rule="GroupQueryAttention: past_key and past_value must be (N, kv_num_heads, steps, features per head)",
        )
    if not past.shape[2]:
        return x
    total = max(past.shape[2], length)
    if is_first:
        return padded(x, ((0, 0), (0, 0), (0, total - steps), (0, 0)))
    shape = (*x.shape[:2], total, x.shape[3])
    claim_constant("positions of a cache", total)
    positions = tensor(np.arange(total).reshape(-1, 1))
    step = positions - old_length
    chosen = TakeAlong(2)(x, broadcast_to(clip(step, 0, steps - 1), shape))
    old = padded(past, ((0, 0), (0, 0), (0, total - past.shape[2]), (0, 0)))
    return where(step < 0, old, where(step < steps, chosen, 0))


def _attended(
    query: Expr, key: Expr, value: Expr, mask: Expr, bias: Expr | None, sink: Expr | None, cap: float
) -> Expr:
    """Return the values weighted by the softmax of the scores, with an optional cap, bias and attention sink."""
    total = key.shape[2]
    key, value = (repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = matmul(query, swap(key))
    if cap:
        scores = tanh(scores / cap) * cap
    if bias is not None:
        if bias.ndim != 4:
            raise OperandError(f"attention_bias is {bias.type}", rule="attention_bias must be (N, heads, steps, keys)")
        # unused positions of the cache are masked, so they need no bias
        used = bias[..., :total]
        scores = scores + padded(used, (*[(0, 0)] * (used.ndim - 1), (0, total - used.shape[-1])))
    scores = where(mask, scores, -np.inf)
    if sink is not None:
        # one additional score per head, without a value
        scores = concatenate([scores, broadcast_to(reshape(sink, (-1, 1, 1)), (*scores.shape[:-1], 1))], -1)
        return matmul(softmax(scores, -1)[..., :total], value)
    return matmul(where(mask, softmax(scores, -1), 0), value)
