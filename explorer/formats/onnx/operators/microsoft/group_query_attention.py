"""Attention of the domain com.microsoft for decoders: heads of queries share keys, and keys of earlier runs are given.

A cache of keys and values may be longer than what it holds: how much of it counts differs from sequence to sequence and
is a value of the run. The new keys are put behind those, by a choice for each place; results are as long as the cache,
or as the total length where that is larger.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.heads import joined_heads, scale_of, split_heads, turned_by_places
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, optional, required, whole
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


class _Steps(NamedTuple):
    """How many steps there are, by sequence: (N, 1, 1, 1), int64."""

    earlier: Expr
    """steps that the cache holds already"""
    last: Expr
    """the last step that counts"""


@operator("com.microsoft.GroupQueryAttention", ignored=("rotary_interleaved", "smooth_softmax"))
def group_query_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of each step to those before it, where several heads of queries share keys and values.

    Outputs are the attended values, and all keys and values by heads.
    """
    for place, name in ((12, "k_scale"), (13, "v_scale")):
        if is_given(op, f"input {place}"):
            raise OperandError(f"{name} is given", rule=f"GroupQueryAttention: {name} must be left out")
    for name, usual in (("k_quant_type", "NONE"), ("v_quant_type", "NONE"), ("qk_output", 0)):
        op.only(name, usual)
    query, key, value = _operands(op)
    steps, length = query.shape[2], whole(op, "input 6")
    # the input is each sequence's length less one
    last = cast(reshape(required(op, "input 5"), (-1, 1, 1, 1)), _INT64)
    is_first = steps == length
    earlier = zeros((query.shape[0], 1, 1, 1), _INT64) if is_first else last + 1 - steps
    counts = _Steps(earlier, last)
    op.only("qk_output", 0)
    op.only("kv_cache_bit_width", 0)
    for name in ("k_quant_type", "v_quant_type"):
        op.only(name, "NONE")
    if op.integer("do_rotary", 0):
        places = optional(op, "input 9")
        if places is None:
            places = reshape(earlier, (-1, 1)) + np.arange(steps)
        tables = required(op, "input 7"), required(op, "input 8"), bool(op.integer("rotary_interleaved", 0))
        query, key = (turned_by_places(x, places, *tables) for x in (query, key))
    key, value = (_behind(op, place, x, counts, length, is_first) for place, x in ((3, key), (4, value)))
    return (joined_heads(_attended(op, query, key, value, counts)), key, value)[: len(op.definition.outputs)]


def _operands(op: OperatorContext) -> tuple[Expr, Expr, Expr]:
    """Return queries, keys and values by heads; one operand may hold all three, side by side."""
    query, key, value = required(op, "input 0"), optional(op, "input 1"), optional(op, "input 2")
    heads, shared = op.integer("num_heads"), op.integer("kv_num_heads")
    if query.ndim != 3 or min(heads, shared) < 1 or heads % shared or (key is None) != (value is None):
        raise OperandError(
            f"a query {query.type} in {heads} heads, with keys and values in {shared}",
            rule="GroupQueryAttention: the query must be (N, steps, features), kv_num_heads must divide num_heads, and "
            "key and value must both be given, or neither",
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


def _behind(op: OperatorContext, place: int, x: Expr, counts: _Steps, length: int, is_first: bool) -> Expr:
    """Return a cache with new keys or values behind the steps that it holds; zeros follow them."""
    past = optional(op, f"input {place}")
    steps = x.shape[2]
    if past is None:
        return x
    if past.ndim != 4 or (*past.shape[:2], past.shape[3]) != (*x.shape[:2], x.shape[3]):
        raise OperandError(
            f"a cache {past.type} for {x.type}",
            rule="GroupQueryAttention: past_key and past_value must be (N, kv_num_heads, steps, features of a head)",
        )
    if not past.shape[2]:
        return x
    total = max(past.shape[2], length)
    if is_first:
        return padded(x, ((0, 0), (0, 0), (0, total - steps), (0, 0)))
    shape = (*x.shape[:2], total, x.shape[3])
    claim_constant("places of a cache", total)
    places = tensor(np.arange(total).reshape(-1, 1))
    fresh = places - counts.earlier
    chosen = TakeAlong(2)(x, broadcast_to(clip(fresh, 0, steps - 1), shape))
    kept = padded(past, ((0, 0), (0, 0), (0, total - past.shape[2]), (0, 0)))
    return where(fresh < 0, kept, where(fresh < steps, chosen, 0))


def _attended(op: OperatorContext, query: Expr, key: Expr, value: Expr, counts: _Steps) -> Expr:
    """Return the attended values: a step sees those before it, within the window, as far as its sequence reaches."""
    steps, total = query.shape[2], key.shape[2]
    claim_constant("places of a cache", steps + total)
    places, own = tensor(np.arange(total)), counts.earlier + np.arange(steps).reshape(-1, 1)
    mask = (places <= own) & (places <= counts.last)
    window, cap = op.integer("local_window_size", -1), op.number("softcap", 0.0)
    if window > 0:
        mask = mask & (places > own - window)
    bias, sink = optional(op, "input 10"), optional(op, "input 11")
    if sink is None and op.integer("smooth_softmax", 0):
        sink = zeros((query.shape[1],), query.dtype)
    scale = scale_of(op, query)
    if bias is None and not cap and sink is None:
        return attention(query, key, value, mask, scale=scale)
    key, value = (repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = matmul(query * scale, swap(key))
    if cap:
        scores = tanh(scores / cap) * cap
    if bias is not None and bias.ndim != 4:
        raise OperandError(
            f"attention_bias is {bias.type}", rule="GroupQueryAttention: attention_bias must be (N, heads, steps, keys)"
        )
    if bias is not None:
        # places of a cache behind all steps have no bias, and do not count
        own = bias[..., :total]
        scores = scores + padded(own, (*[(0, 0)] * (own.ndim - 1), (0, total - own.shape[-1])))
    scores = where(mask, scores, -np.inf)
    if sink is not None:
        # one score more for each head, whose value counts for nothing
        scores = concatenate([scores, broadcast_to(reshape(sink, (-1, 1, 1)), (*scores.shape[:-1], 1))], -1)
        return matmul(softmax(scores, -1)[..., :total], value)
    return matmul(where(mask, softmax(scores, -1), 0), value)
