"""Attention of one step to keys and values that lie in a buffer, into which a run of ONNX Runtime writes the new ones.

How much of the buffer counts is a value of the run. Here nothing is written in place: the results are the buffers with
the new keys and values at their place, as ONNX Runtime leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.heads import check_bias, joined_heads, scale_of, split_heads
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import optional, required
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.put import PutAlong
from explorer.ops.nn.attention import attention

_INT64 = np.dtype(np.int64)


def attended_in_buffer(
    op: OperatorContext,
    operands: tuple[Expr, Expr, Expr],
    past: Sequence[Expr | None],
    length: Expr,
    mask: Expr | None,
    bias: Expr | None,
) -> tuple[Expr, ...]:
    """Return the joined heads of one step, and both buffers with its key and value behind ``length`` steps.

    Operands are by heads; a mask (N, steps) has 1 for keys that count, a bias is added to scores.
    """
    query, key, value = operands
    fits = [
        x is not None and x.ndim == 4 and (*x.shape[:2], x.shape[3]) == (*new.shape[:2], new.shape[3])
        for x, new in zip(past, operands[1:], strict=True)
    ]
    keys, values = past
    if query.shape[2] != 1 or key.shape[2] != 1 or not all(fits) or keys is None or values is None:
        types = " and ".join("none" if x is None else str(x.type) for x in past)
        raise OperandError(
            f"{query.shape[2]} steps, keys {key.type} and the past {types}",
            rule=f"{op.definition.type}: with past_sequence_length there must be one step, and both parts of the past "
            "as buffers (N, heads, steps, features of a head)",
        )
    total = keys.shape[2]
    if (
        length.size != 1
        or values.shape[2] != total
        or length.dtype.kind != "i"
        or (mask is not None and mask.ndim != 2)
    ):
        raise OperandError(
            f"past_sequence_length {length.type}" + ("" if mask is None else f", a mask {mask.type}"),
            rule=f"{op.definition.type}: past_sequence_length must be one whole number, both buffers of one length, "
            "and a mask (N, steps)",
        )
    place = cast(reshape(length, (1, 1, 1, 1)), _INT64)
    claim_constant("places of a buffer", total)
    counts = tensor(np.arange(total)) <= place
    if mask is not None:
        counts = counts & reshape(_over(mask > 0, total), (-1, 1, 1, total))
    scores = where(counts, 0 if bias is None else _over(bias, total), np.float32(-np.inf))
    # a negative place counts from the end elsewhere; here it is none
    end = where(place < 0, total, place)
    key = PutAlong(2)(keys, broadcast_to(end, key.shape), key)
    value = PutAlong(2)(values, broadcast_to(end, value.shape), value)
    result = joined_heads(attention(query, key, value, scores, scale=scale_of(op, query)))
    return (result, key, value)[: len(op.definition.outputs)]


def _over(x: Expr, total: int) -> Expr:
    """Return x with zeros behind the last axis as far as the buffer, or without what lies beyond it."""
    own = x[..., :total]
    return padded(own, (*[(0, 0)] * (own.ndim - 1), (0, total - own.shape[-1])))


@operator("com.microsoft.DecoderMaskedMultiHeadAttention", ignored=("mask_filter_value",))
def decoder_masked_multi_head_attention(op: OperatorContext) -> tuple[Expr, ...]:
    """Attention of one step to itself and to keys and values of earlier ones, which lie in a buffer."""
    for place, name in ((8, "beam_width"), (9, "cache_indirection")):
        if optional(op, f"input {place}") is not None:
            raise OperandError(f"{name} is given", rule=f"DecoderMaskedMultiHeadAttention: {name} must be left out")
    op.only("past_present_share_buffer", 1)
    op.only("output_qk", 0)
    count, query = op.integer("num_heads"), required(op, "input 0")
    key, value, bias = required(op, "input 1"), required(op, "input 2"), optional(op, "input 10")
    if any(x.ndim != 3 for x in (query, key, value)):
        raise OperandError(
            f"query {query.type}, key {key.type}, value {value.type}",
            rule="DecoderMaskedMultiHeadAttention: all three must be (N, 1, features)",
        )
    check_bias(op, bias, query, key, value)
    if bias is not None:
        ends = np.cumsum([x.shape[-1] for x in (query, key, value)]).tolist()
        query, key, value = (
            x + bias[end - x.shape[-1] : end] for x, end in zip((query, key, value), ends, strict=True)
        )
    operands = split_heads(query, count), split_heads(key, count), split_heads(value, count)
    past = [optional(op, f"input {place}") for place in (5, 6)]
    mask, scores = optional(op, "input 3"), optional(op, "input 4")
    return attended_in_buffer(op, operands, past, required(op, "input 7"), mask, scores)
