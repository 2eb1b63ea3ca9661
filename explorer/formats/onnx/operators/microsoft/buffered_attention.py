"""Attention of a single step to the keys and values in a buffer; an input states how much of the buffer is used.

ONNX Runtime writes each new key and value into the buffer. Here, the buffers are not modified: the results are copies
that also contain the new key and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.microsoft.attention_heads import check_bias, joined_heads, scale_of, split_heads
from explorer.net.operators.signature import Outputs, Unused
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.put import PutAlong
from explorer.ops.nn.attention import attention

_INT64 = np.dtype(np.int64)


def attended_in_buffer(
    operands: tuple[Expr, Expr, Expr],
    past: Sequence[Expr | None],
    length: Expr,
    mask: Expr | None,
    bias: Expr | None,
    scale: float,
) -> tuple[Expr, ...]:
    """Return the joined heads of one step, and both buffers with its key and value at index ``length``.

    Operands are split into heads. A mask (N, steps) is 1 for visible keys, and a bias is added to the scores.
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
            rule="with past_sequence_length, the query must have one step, and past keys and values must be buffers "
            "(N, heads, steps, features per head)",
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
            rule="past_sequence_length must be one integer, buffers must have equal lengths, and a mask must be "
            "(N, steps)",
        )
    position = cast(reshape(length, (1, 1, 1, 1)), _INT64)
    claim_constant("positions of a buffer", total)
    is_visible = tensor(np.arange(total)) <= position
    if mask is not None:
        is_visible = is_visible & reshape(_with_length(mask > 0, total), (-1, 1, 1, total))
    scores = where(is_visible, 0 if bias is None else _with_length(bias, total), np.float32(-np.inf))
    # A negative position is invalid, but PutAlong would count it from the end: use a position past the buffer.
    end = where(position < 0, total, position)
    key = PutAlong(2)(keys, broadcast_to(end, key.shape), key)
    value = PutAlong(2)(values, broadcast_to(end, value.shape), value)
    return joined_heads(attention(query, key, value, scores, scale=scale_of(scale, query))), key, value


def _with_length(x: Expr, total: int) -> Expr:
    """Pad or truncate the last axis of x to the buffer length ``total``."""
    own = x[..., :total]
    return padded(own, (*[(0, 0)] * (own.ndim - 1), (0, total - own.shape[-1])))


@operator("com.microsoft.DecoderMaskedMultiHeadAttention")
def decoder_masked_multi_head_attention(
    query: Expr,
    key: Expr,
    value: Expr,
    mask_index: Expr | None,
    attention_bias: Expr | None,
    past_key: Expr | None,
    past_value: Expr | None,
    past_sequence_length: Expr,
    beam_width: None = None,
    cache_indirection: None = None,
    bias: Expr | None = None,
    *,
    num_heads: int,
    scale: float = 0.0,
    mask_filter_value: Unused,
    output_qk: Literal[0] = 0,
    past_present_share_buffer: Literal[1] = 1,
    outputs: Outputs,
) -> tuple[Expr, ...]:
    """Record attention of one step to itself and to earlier steps in a buffer."""
    operands = query, key, value
    if any(x.ndim != 3 for x in operands):
        raise OperandError(
            f"query {query.type}, key {key.type}, value {value.type}",
            rule="query, key and value must be (N, 1, features)",
        )
    check_bias(bias, *operands)
    if bias is not None:
        ends = np.cumsum([x.shape[-1] for x in operands]).tolist()
        query, key, value = (x + bias[end - x.shape[-1] : end] for x, end in zip(operands, ends, strict=True))
    heads = split_heads(query, num_heads), split_heads(key, num_heads), split_heads(value, num_heads)
    past = past_key, past_value
    return attended_in_buffer(heads, past, past_sequence_length, mask_index, attention_bias, scale)[:outputs]
