"""Linear layers, embeddings, flattening, dropout and constants."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import InPlace
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import FlaggedWeight, Ints, Names, Unused
from explorer.ops.manipulation.gather import embedding
from explorer.ops.manipulation.reshape import flatten, reshape


@file_operator("nn.Linear", "F.linear")
def linear(input: Expr, weight: Expr, bias: FlaggedWeight = None, *, in_features: Unused, out_features: Unused) -> Expr:
    """Return x · Wᵀ + b; the weight determines the number of input and output features."""
    y = input @ weight.T
    return y if bias is None else y + bias


TrainingOnly = Annotated[Unused, Names("norm_type", "padding_idx", "scale_grad_by_freq", "sparse")]
"""arguments that affect only gradients, or apply only if max_norm is given"""
TableSize = Annotated[Unused, Names("embedding_dim", "num_embeddings")]
"""sizes that the table determines"""


@file_operator("nn.Embedding", "F.embedding")
def embedding_(
    input: Expr, weight: Expr, *, max_norm: None = None, training_only: TrainingOnly, size: TableSize
) -> Expr:
    """Return the rows of the table ``weight`` at the indices ``input``."""
    return embedding(weight, input)


@file_operator("nn.Flatten")
def flatten_module(input: Expr, *, start_dim: int = 1, end_dim: int = -1) -> Expr:
    """Merge the axes from ``start_dim`` to ``end_dim``, by default all except the first."""
    return flatten(input, start_dim, end_dim)


@file_operator("torch.flatten")
def flatten_(input: Expr, start_dim: int = 0, end_dim: int = -1) -> Expr:
    """Merge the axes from ``start_dim`` to ``end_dim``, by default all."""
    return flatten(input, start_dim, end_dim)


@file_operator("nn.Unflatten", "Tensor.unflatten", "torch.unflatten")
def unflatten(input: Expr, dim: int, sizes: Annotated[Ints, Names("sizes", "unflattened_size")]) -> Expr:
    """Split the axis ``dim`` into axes with the lengths ``sizes``; one length may be −1."""
    axis = normalize_axis(dim, input.ndim, "unflatten")
    if sizes.count(-1) == 1:
        # negated, since the product contains the −1
        product = -math.prod(sizes)
        sizes = tuple([input.shape[axis] // product if size == -1 and product else size for size in sizes])
    return reshape(input, (*input.shape[:axis], *sizes, *input.shape[axis + 1 :]))


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
)
def identity(input: Expr, *, training: Literal[False] = False, p: Unused, inplace: InPlace) -> Expr:
    """Return the operand itself, since files contain nets in evaluation mode, in which dropout does nothing."""
    return input


@file_operator("pnnx.Attribute")
def attribute(op: OperatorContext) -> Expr:
    """Return a constant of the file."""
    if len(op.definition.weights) != 1:
        raise OperandError(
            f"{len(op.definition.weights)} weights are declared",
            rule="pnnx.Attribute must have one weight: @name=(…)dtype",
        )
    (name,) = op.definition.weights
    return op.weight(name)
