"""Modules of torch.nn beside convolution, pooling and normalization: linear maps, look-up, shapes, constants."""

from __future__ import annotations

import math

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import tensor_or_none
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.gather import embedding
from explorer.ops.manipulation.reshape import flatten, reshape


@file_operator("nn.Linear", ignored=("in_features", "out_features"))
def linear(op: OperatorContext) -> Expr:
    """x · Wᵀ + b."""
    bias = op.weight("bias") if op.flag("bias", True) else None
    y = op.x @ op.weight("weight").T
    return y if bias is None else y + bias


@file_operator("F.linear")
def linear_(op: OperatorContext) -> Expr:
    """x · Wᵀ + b with given weights."""
    y, bias = op.x @ op.tensor(1, "weight").T, tensor_or_none(op, 2, "bias")
    return y if bias is None else y + bias


_OF_TRAINING = ("norm_type", "padding_idx", "scale_grad_by_freq", "sparse")
"""parameters of look-ups that tell how gradients are added up, or mean something with max_norm alone"""


@file_operator("nn.Embedding", ignored=("embedding_dim", "num_embeddings", *_OF_TRAINING))
def look_up(op: OperatorContext) -> Expr:
    """Rows of a table by number."""
    op.only("max_norm", None)
    return embedding(op.weight("weight"), op.x)


@file_operator("F.embedding", ignored=_OF_TRAINING)
def look_up_(op: OperatorContext) -> Expr:
    """Rows of a given table by number."""
    op.only("max_norm", None)
    return embedding(op.tensor(1, "weight"), op.x)


@file_operator("nn.Flatten", "torch.flatten")
def flatten_(op: OperatorContext) -> Expr:
    """Axes start_dim … end_dim merged into one."""
    first = 1 if op.definition.type == "nn.Flatten" else 0
    return flatten(op.x, op.integer("start_dim", first), op.integer("end_dim", -1))


@file_operator("nn.Unflatten", "Tensor.unflatten", "torch.unflatten")
def unflatten(op: OperatorContext) -> Expr:
    """An axis split into several, of which one size may be −1."""
    x, axis = op.x, normalize_axis(op.integer("dim"), op.x.ndim, "unflatten")
    sizes = op.integers("sizes" if op.has("sizes") else "unflattened_size")
    if sizes.count(-1) == 1:
        # the product of the other sizes: the −1 is one of its factors
        others = -math.prod(sizes)
        sizes = tuple([x.shape[axis] // others if size == -1 and others else size for size in sizes])
    return reshape(x, (*x.shape[:axis], *sizes, *x.shape[axis + 1 :]))


@file_operator(
    "nn.Dropout",
    "nn.Dropout1d",
    "nn.Dropout2d",
    "nn.Dropout3d",
    "nn.AlphaDropout",
    "nn.FeatureAlphaDropout",
    "nn.Identity",
    "F.dropout",
    "F.dropout2d",
    "F.dropout3d",
    "F.alpha_dropout",
    "F.feature_alpha_dropout",
    ignored=("p", "inplace"),
)
def identity(op: OperatorContext) -> Expr:
    """The operand itself: a file holds a net that is not training."""
    op.only("training", False)
    return op.x


@file_operator("pnnx.Attribute")
def attribute(op: OperatorContext) -> Expr:
    """A constant of the file."""
    if len(op.definition.weights) != 1:
        raise OperandError(
            f"{len(op.definition.weights)} weights are declared",
            rule="pnnx.Attribute must have one weight: @name=(…)dtype",
        )
    (name,) = op.definition.weights
    return op.weight(name)
