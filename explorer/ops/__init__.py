"""Operations; importing this package registers every family."""

from explorer.ops import accumulation_dtype, random
from explorer.ops.control import cond, recurrence, scan, while_loop
from explorer.ops.creation import constants
from explorer.ops.elementwise import arithmetic, binary, erf, rounding_and_bits, trigonometric_and_logs, unary
from explorer.ops.linalg import einsum, matmul, tensordot, wide_accumulation
from explorer.ops.manipulation import concat, device_copy, gather, one_hot, padding, rearrange, reshape, slicing
from explorer.ops.mapping import fold_trees, mapping
from explorer.ops.nn import (
    activation,
    attention,
    conv,
    conv_1d_3d,
    conv_transpose,
    losses,
    normalization,
    pooling,
    pooling_3d,
    resize,
    softmax,
)
from explorer.ops.reduction import reduce, sorting, statistics

__all__ = [
    "accumulation_dtype",
    "activation",
    "arithmetic",
    "attention",
    "binary",
    "concat",
    "cond",
    "constants",
    "conv",
    "conv_1d_3d",
    "conv_transpose",
    "device_copy",
    "einsum",
    "erf",
    "fold_trees",
    "gather",
    "losses",
    "mapping",
    "matmul",
    "normalization",
    "one_hot",
    "padding",
    "pooling",
    "pooling_3d",
    "random",
    "rearrange",
    "recurrence",
    "reduce",
    "reshape",
    "resize",
    "rounding_and_bits",
    "scan",
    "slicing",
    "softmax",
    "sorting",
    "statistics",
    "tensordot",
    "trigonometric_and_logs",
    "unary",
    "while_loop",
    "wide_accumulation",
]
