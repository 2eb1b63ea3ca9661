"""Attention: averages of values, weighted by the similarity of queries and keys.

Attention is recorded as matrix products, a softmax and a selection, which the plan can batch, fuse and tile. A special
kernel would not have to store the scores, but would have to implement all of this again.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_constant
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.linalg.matmul import matmul, swap
from explorer.ops.manipulation.rearrange import repeat
from explorer.ops.nn.softmax import softmax

__all__ = ["attention", "attention_weights"]


@public
@composition
@rounded_once
def attention_weights(
    query: Any, key: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None, policies: Items = ()
) -> Expr:
    """Compute softmax(query · keyᵀ · scale + mask) over the keys: (…, L, E), (…, S, E) → (…, L, S).

    If ``scale`` is None, 1/√E is used. A boolean mask is True for visible keys; the weights of a query without visible
    keys are NaN. ``causal`` hides the keys after each query's position. Raises OperandError if the shapes do not match.

    >>> q, k = ex.tensor([[1.0, 0.0]]), ex.tensor([[1.0, 0.0], [0.0, 1.0]])
    >>> ex.evaluate(ex.attention_weights(q, k, scale=0.0))
    array([[0.5, 0.5]])
    """
    query, key = as_operands((query, key))
    if query.ndim < 2 or key.ndim < 2 or query.shape[-1] != key.shape[-1]:
        raise OperandError(
            f"attention of queries {query.type} and keys {key.type}",
            rule="queries must be (…, L, E) and keys (…, S, E) with the same size E",
            fix="ex.transpose or x @ W, so that both last axes have the same size",
        )
    factor = 1 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    # scale the E elements of each query instead of its S scores (for E = 0 the factor is 1)
    scores = matmul(query * factor, swap(key))
    if mask is not None:
        (mask,) = as_operands((mask,))
        # −∞ makes the weights of hidden keys exactly 0; a large negative number would leave small weights
        scores = where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask
    if causal:
        claim_constant("a causal mask", query.shape[-2] * key.shape[-2], 1)
        scores = where(np.tri(query.shape[-2], key.shape[-2], dtype=bool), scores, -np.inf)
    return softmax(scores, -1)


@public
@composition
@rounded_once
def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    policies: Items = (),
) -> Expr:
    """Compute scaled dot-product attention: (…, L, E), (…, S, E), (…, S, V) → (…, L, V); see ``attention_weights``.

    If the queries have more heads (axis −3) than the keys and values, consecutive query heads share one key and value
    head. If the boolean mask is False for every key of a query, the query's result is zeros.

    >>> x = ex.tensor(np.ones((2, 8, 10, 16), "float32"))
    >>> ex.attention(x, x, x, causal=True).shape
    (2, 8, 10, 16)
    """
    query, key, value = as_operands((query, key, value))
    key, value = (_shared_heads(query, x) for x in (key, value))
    weights = attention_weights(query, key, mask, causal=causal, scale=scale)
    if mask is not None:
        (mask,) = as_operands((mask,))
        weights = where(mask, weights, 0) if mask.dtype.kind == "b" else weights
    return matmul(weights, value)


def _shared_heads(query: Expr, x: Expr) -> Expr:
    if min(query.ndim, x.ndim) < 3 or x.shape[-3] in (1, query.shape[-3]):
        return x
    count, rest = divmod(query.shape[-3], max(x.shape[-3], 1))
    if rest or not x.shape[-3]:
        raise OperandError(
            f"attention: {query.shape[-3]} query heads for {x.shape[-3]} heads of keys or values",
            rule="the number of query heads must be divisible by the number of key and value heads",
            fix="reshape to (…, heads, length, features), so that axis −3 is the heads",
        )
    return repeat(x, count, x.ndim - 3)
