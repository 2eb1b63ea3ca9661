"""Scaled dot-product attention, and the multi-head attention module with its projections.

In boolean masks, True hides a key in the module, but shows it in the function and in ``attention_weights``. Packed
weights have torch's layout: rows for queries, then for keys, then for values.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.formats.common.operator_checks import with_rank, with_shape
from explorer.formats.pnnx.attention_operands import MASKS
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Names, Outputs, Unused
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.linalg.matmul import matmul
from explorer.ops.manipulation.reshape import expand_dims, reshape, transpose
from explorer.ops.nn.attention import attention, attention_weights
from explorer.ops.reduction.reduce import mean


@file_operator("F.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Expr,
    key: Expr,
    value: Expr,
    attn_mask: Expr | None = None,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Expr:
    """Return the values, weighted by the softmax of the products of queries and keys."""
    if dropout_p:
        raise OperandError(
            f"dropout_p={dropout_p!r}", rule="dropout_p must be 0.0, since dropout applies only in training"
        )
    if key.ndim > 2 and query.ndim > 2 and key.shape[-3] != query.shape[-3] and not enable_gqa:
        raise OperandError(
            f"queries {query.type} and keys {key.type}",
            rule="query and key must have the same number of heads, unless enable_gqa=True",
        )
    return attention(query, key, value, attn_mask, causal=is_causal, scale=scale)


Training = Annotated[Unused, Names("kdim", "vdim", "dropout")]
"""sizes that the weights determine, and a rate that affects only training"""


@file_operator("nn.MultiheadAttention")
def multi_head_attention(
    query: Expr,
    key: Expr | None = None,
    value: Expr | None = None,
    *,
    embed_dim: int,
    num_heads: int,
    bias: bool = True,
    batch_first: bool = False,
    add_bias_kv: Literal[False] = False,
    add_zero_attn: Literal[False] = False,
    attn_mask: Expr | None = None,
    key_padding_mask: Expr | None = None,
    in_proj_weight: Expr | None = None,
    q_proj_weight: Expr | None = None,
    k_proj_weight: Expr | None = None,
    v_proj_weight: Expr | None = None,
    in_proj_bias: Expr | None = None,
    out_weight: Annotated[Expr | None, Names("out_proj.weight")] = None,
    out_bias: Annotated[Expr | None, Names("out_proj.bias")] = None,
    one_of: tuple[str, ...] = (),
    training: Training,
    outputs: Outputs,
) -> Expr | tuple[Expr, Expr]:
    """Return the result of multi-head attention with linear projections, and the mean attention weights if requested.

    A single operand is used as queries, keys and values. The second of two operands is used as keys and values.
    """
    if one_of:
        raise OperandError(
            f"operands that may be {' or '.join(one_of)}",
            rule="the shape must identify an operand, since the file does not contain its name",
            fix="export with different numbers of samples, queries and keys, or open the module: "
            "ex.open(module, inputs)",
        )
    if num_heads < 1 or embed_dim % num_heads:
        raise OperandError(
            f"num_heads={num_heads}, embed_dim={embed_dim}",
            rule="the number of features must be a multiple of the number of heads",
        )
    if (in_proj_bias is not None, out_bias is not None) != (bias, bias):
        raise OperandError(
            f"bias={bias} with in_proj_bias {'missing' if in_proj_bias is None else 'given'}, out_proj.bias "
            f"{'missing' if out_bias is None else 'given'}",
            rule="the module must have both biases if bias is True, and neither if it is False",
        )
    keys = query if key is None else key
    sequences = [query, keys, keys if value is None else value]
    for name, x in zip(("query", "key", "value"), sequences, strict=True):
        with_rank(name, x, *(("N", "steps") if batch_first else ("steps", "N")), "features")
    if not batch_first:
        sequences = [transpose(x, (1, 0, 2)) for x in sequences]
    unpacked = {"q_proj_weight": q_proj_weight, "k_proj_weight": k_proj_weight, "v_proj_weight": v_proj_weight}
    biases = None if in_proj_bias is None else with_shape("in_proj_bias", in_proj_bias, (3 * embed_dim,))
    projected = []
    for index, (x, name) in enumerate(zip(sequences, unpacked, strict=True)):
        part = slice(index * embed_dim, (index + 1) * embed_dim)
        if in_proj_weight is not None:
            weight = with_shape("in_proj_weight", in_proj_weight, (3 * embed_dim, x.shape[2]))[part]
        else:
            weight = _required(name, unpacked[name], (embed_dim, x.shape[2]))
        y = matmul(x, weight.T) if biases is None else matmul(x, weight.T) + biases[part]
        projected.append(_heads(y, num_heads))
    queries, key_heads, values = projected
    mask = _mask(attn_mask, key_padding_mask, num_heads, queries, key_heads)
    weights = attention_weights(queries, key_heads, mask)
    if mask is not None and mask.dtype.kind == "b" and outputs == 1:
        # If no weights are requested, the module calls torch's function, which gives zeros for a query whose keys are
        # all hidden.
        weights = where(mask, weights, 0)
    mixed = transpose(matmul(weights, values), (0, 2, 1, 3))
    joined = reshape(mixed, (*mixed.shape[:2], embed_dim))
    y = matmul(joined, _required("out_proj.weight", out_weight, (embed_dim, embed_dim)).T)
    if out_bias is not None:
        y = y + with_shape("out_proj.bias", out_bias, (embed_dim,))
    y = y if batch_first else transpose(y, (1, 0, 2))
    return y if outputs == 1 else (y, mean(weights, 1))


def _required(name: str, weight: Expr | None, shape: Shape) -> Expr:
    if weight is None:
        raise OperandError(f"the weight {name!r} is missing", rule="the module must have all its weights")
    return with_shape(name, weight, shape)


def _heads(x: Expr, heads: int) -> Expr:
    """Reshape (N, steps, features) to (N, heads, steps, features / heads)."""
    n, steps, features = x.shape
    return transpose(reshape(x, (n, steps, heads, features // heads)), (0, 2, 1, 3))


def _mask(attn_mask: Expr | None, key_padding_mask: Expr | None, heads: int, query: Expr, key: Expr) -> Expr | None:
    """Combine both masks to a boolean mask (True for visible keys) or an additive mask; None if both are None."""
    pairs, count = (query.shape[2], key.shape[2]), query.shape[0]
    masks = []
    for name, mask, shapes in (
        (MASKS[0], attn_mask, (pairs, (count * heads, *pairs))),
        (MASKS[1], key_padding_mask, ((count, pairs[1]),)),
    ):
        if mask is None:
            continue
        if mask.shape not in shapes:
            raise OperandError(
                f"{name} is {mask.type}",
                rule=f"{name} must have the shape {', or '.join(map(str, shapes))}",
                fix="export again with a pnnx that records shapes, or open the module: ex.open(module, inputs)",
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
    return _additive(first) + _additive(second)


def _additive(mask: Expr) -> Expr:
    """Convert a mask to an additive mask, which is −∞ for hidden keys."""
    return where(mask, np.float32(0), np.float32(-np.inf)) if mask.dtype.kind == "b" else mask
