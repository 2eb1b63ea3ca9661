"""Attention: the function, and the module with its projections.

The module's boolean masks are True for hidden keys, the function's are True for visible ones; ``attention_weights`` has
the function's meaning. Weights keep torch's packed layout: rows of queries, keys and values, one after the other.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.pnnx.operators.base.arguments import tensor_or_none
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import expand_dims, reshape, transpose
from explorer.ops.nn.attention import attention, attention_weights
from explorer.ops.reduction.reduce import mean


@file_operator("F.scaled_dot_product_attention")
def scaled_dot_product_attention(op: OperatorContext) -> Expr:
    """Softmax of queries times keys, applied to values."""
    op.only("dropout_p", 0.0)
    scale = None if op.argument("scale", None) is None else op.number("scale")
    query, key, value = op.tensor(0, "query"), op.tensor(1, "key"), op.tensor(2, "value")
    shared = op.flag("enable_gqa", False)
    if key.ndim > 2 and query.ndim > 2 and key.shape[-3] != query.shape[-3] and not shared:
        raise OperandError(
            f"queries {query.type} and keys {key.type}",
            rule="query and key must have as many heads, unless enable_gqa=True",
        )
    mask = tensor_or_none(op, 3, "attn_mask")
    return attention(query, key, value, mask, causal=op.flag("is_causal", False), scale=scale)


@file_operator("nn.MultiheadAttention", ignored=("kdim", "vdim", "dropout"))
def multi_head_attention(op: OperatorContext) -> Any:
    """Attention of several heads between linear maps; outputs are the values, then the mean weights where asked for."""
    for name in ("add_bias_kv", "add_zero_attn"):
        op.only(name, False)
    heads, width = op.integer("num_heads"), op.integer("embed_dim")
    if heads < 1 or width % heads:
        raise OperandError(
            f"num_heads={heads}, embed_dim={width}",
            rule="the number of features must be a multiple of the number of heads",
        )
    count = len(op.passed) - sum(name in op.definition.input_names for name in ("attn_mask", "key_padding_mask"))
    sequences = [op.tensor(min(position, count - 1)) for position in range(3)]
    batch_first = op.flag("batch_first", False)
    for name, x in zip(("query", "key", "value"), sequences, strict=True):
        with_rank(op, name, x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    if not batch_first:
        sequences = [transpose(x, (1, 0, 2)) for x in sequences]
    query, key, value = (
        _heads(matmul(x, weight.T) if bias is None else matmul(x, weight.T) + bias, heads)
        for x, (weight, bias) in zip(sequences, _projections(op, width, sequences), strict=True)
    )
    weights = attention_weights(query, key, _mask(op, heads, query, key))
    mixed = transpose(matmul(weights, value), (0, 2, 1, 3))
    y = matmul(reshape(mixed, (*mixed.shape[:2], width)), _weight(op, "out_proj.weight", width, width).T)
    if op.flag("bias", True):
        y = y + _weight(op, "out_proj.bias", width)
    y = y if batch_first else transpose(y, (1, 0, 2))
    return y if len(op.definition.outputs) == 1 else (y, mean(weights, 1))


def _projections(op: OperatorContext, width: int, sequences: list[Expr]) -> list[tuple[Expr, Expr | None]]:
    """Weights and biases of queries, keys and values: one matrix for all, or one for each where sizes differ."""
    is_packed = op.optional_weight("in_proj_weight") is not None
    bias = _weight(op, "in_proj_bias", 3 * width) if op.flag("bias", True) else None
    projections: list[tuple[Expr, Expr | None]] = []
    for index, (name, x) in enumerate(zip("qkv", sequences, strict=True)):
        part = slice(index * width, (index + 1) * width)
        features = x.shape[2]
        if is_packed:
            weight = _weight(op, "in_proj_weight", 3 * width, features)[part]
        else:
            weight = _weight(op, f"{name}_proj_weight", width, features)
        projections.append((weight, None if bias is None else bias[part]))
    return projections


def _weight(op: OperatorContext, name: str, *shape: int) -> Expr:
    return with_shape(op, name, op.weight(name), shape)


def _heads(x: Expr, heads: int) -> Expr:
    """(N, steps, features) to (N, heads, steps, features / heads)."""
    n, steps, features = x.shape
    return transpose(reshape(x, (n, steps, heads, features // heads)), (0, 2, 1, 3))


def _mask(op: OperatorContext, heads: int, query: Expr, key: Expr) -> Expr | None:
    """Both masks as numbers to add: the module's truths say which keys are hidden, the function's which are seen."""
    if "key_padding_mask" in op.definition.input_names:
        raise OperandError(
            "a key_padding_mask", rule="nn.MultiheadAttention must not have one", fix="put it into attn_mask"
        )
    if "attn_mask" not in op.definition.input_names:
        return None
    mask = op.tensor(0, "attn_mask")
    pairs, count = (query.shape[2], key.shape[2]), query.shape[0] * heads
    if mask.shape not in (pairs, (count, *pairs)):
        raise OperandError(
            f"attn_mask is {mask.type}",
            rule=f"nn.MultiheadAttention: attn_mask must have the shape {pairs}, or {(count, *pairs)}; pnnx notes a "
            "mask of padding as one",
            fix="put the padding into attn_mask, or export the model as ONNX",
        )
    if mask.dtype.kind == "b":
        mask = ~mask
    if mask.ndim == 3:
        return reshape(mask, (mask.shape[0] // heads, heads, *mask.shape[1:]))
    return expand_dims(mask, 0)
