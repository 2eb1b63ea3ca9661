"""Attention: the function, and the module with its projections.

The module's boolean masks are True for hidden keys, the function's are True for visible ones; ``attention_weights`` has
the function's meaning. Weights keep torch's packed layout: rows of queries, keys and values, one after the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.pnnx.attention_operands import MASKS, SEQUENCES
from explorer.formats.pnnx.operators.base.arguments import tensor_or_none
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.recurrent_results import ONE_OF
from explorer.net.operators.context import OperatorContext
from explorer.ops.elementwise.arithmetic import where
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
    sequences = _sequences(op)
    batch_first = op.flag("batch_first", False)
    for name, x in zip(("query", "key", "value"), sequences, strict=True):
        with_rank(name, x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    if not batch_first:
        sequences = [transpose(x, (1, 0, 2)) for x in sequences]
    query, key, value = (
        _heads(matmul(x, weight.T) if bias is None else matmul(x, weight.T) + bias, heads)
        for x, (weight, bias) in zip(sequences, _projections(op, width, sequences), strict=True)
    )
    mask = _mask(op, heads, query, key)
    weights = attention_weights(query, key, mask)
    if mask is not None and mask.dtype.kind == "b" and len(op.definition.outputs) == 1:
        # a query without any key gets zeros, as torch's function has it, which the module calls for values alone
        weights = where(mask, weights, 0)
    mixed = transpose(matmul(weights, value), (0, 2, 1, 3))
    y = matmul(reshape(mixed, (*mixed.shape[:2], width)), _weight(op, "out_proj.weight", width, width).T)
    if op.flag("bias", True):
        y = y + _weight(op, "out_proj.bias", width)
    y = y if batch_first else transpose(y, (1, 0, 2))
    return y if len(op.definition.outputs) == 1 else (y, mean(weights, 1))


def _sequences(op: OperatorContext) -> list[Expr]:
    """Return queries, keys and values, by their names or in this order; the last operand serves for the rest."""
    meant: Any = op.argument(ONE_OF, None)
    if meant is not None:
        raise OperandError(
            f"operands that may be {' or '.join(map(str, meant))}",
            rule="nn.MultiheadAttention: what an operand is must follow from its shape, since its name is not in the "
            "file",
            fix="export with inputs of as many samples, queries and keys as are different numbers, or open the module: "
            "ex.open(module, inputs)",
        )
    named = op.definition.input_names
    count = len(op.passed) - sum([name in named for name in MASKS])
    places = [(0, name) if name in named else (min(at, count - 1), "") for at, name in enumerate(SEQUENCES)]
    return [op.tensor(*place) for place in places]


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
    return with_shape(name, op.weight(name), shape)


def _heads(x: Expr, heads: int) -> Expr:
    """(N, steps, features) to (N, heads, steps, features / heads)."""
    n, steps, features = x.shape
    return transpose(reshape(x, (n, steps, heads, features // heads)), (0, 2, 1, 3))


def _mask(op: OperatorContext, heads: int, query: Expr, key: Expr) -> Expr | None:
    """Return what is added for each query and key, or which keys are seen: the module's truths say which are hidden."""
    pairs, count = (query.shape[2], key.shape[2]), query.shape[0]
    masks = []
    for name, shapes in ((MASKS[0], (pairs, (count * heads, *pairs))), (MASKS[1], ((count, pairs[1]),))):
        if name not in op.definition.input_names:
            continue
        mask = op.tensor(0, name)
        if mask.shape not in shapes:
            raise OperandError(
                f"{name} is {mask.type}",
                rule=f"nn.MultiheadAttention: {name} must have the shape {', or '.join(map(str, shapes))}",
                fix="export again with a pnnx that notes shapes, or open the module: ex.open(module, inputs)",
            )
        if name == MASKS[1]:
            mask = expand_dims(mask, (1, 2))
        elif mask.ndim == 3:
            mask = reshape(mask, (count, heads, *pairs))
        masks.append(~mask if mask.dtype.kind == "b" else mask)
    if len(masks) < 2:
        return masks[0] if masks else None
    first, second = masks
    if first.dtype.kind == second.dtype.kind == "b":
        return first & second
    return _added(first) + _added(second)


def _added(mask: Expr) -> Expr:
    """Return a mask as numbers to add: −∞ for keys that are not seen."""
    return where(mask, np.float32(0), np.float32(-np.inf)) if mask.dtype.kind == "b" else mask
