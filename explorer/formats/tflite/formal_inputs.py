"""Names of operands by operator type, as the documentation of TensorFlow's operators has them."""

from __future__ import annotations

_BINARY = (
    "ADD", "SUB", "MUL", "DIV", "MAXIMUM", "MINIMUM", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL",
    "NOT_EQUAL", "POW", "LOGICAL_OR", "LOGICAL_AND", "FLOOR_DIV", "FLOOR_MOD", "SQUARED_DIFFERENCE", "ATAN2",
    "BITWISE_XOR", "RIGHT_SHIFT", "BATCH_MATMUL",
)  # fmt: skip
_REDUCTIONS = (
    "MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY", "REDUCE_ALL", "ARG_MAX", "ARG_MIN",
    "REVERSE_V2", "EXPAND_DIMS", "CUMSUM",
)  # fmt: skip
LISTS = ("CONCATENATION", "PACK", "ADD_N", "WHILE", "CALL", "STABLEHLO_COMPOSITE", "IF")
"""types whose operands, behind those that have names, are one list: ``inputs.0``, ``inputs.1``, …"""
MEMBER = "inputs."
"""begin of the names of a list's members"""
_NAMES = {
    **dict.fromkeys(_BINARY, "x y"),
    **dict.fromkeys(_REDUCTIONS, "input axis"),
    "CONV_2D": "input filter bias",
    "DEPTHWISE_CONV_2D": "input filter bias",
    "CONV_3D": "input filter bias",
    "FULLY_CONNECTED": "input weights bias",
    "TRANSPOSE_CONV": "output_shape filter input bias",
    "CONV_3D_TRANSPOSE": "output_shape filter input bias",
    "RESHAPE": "input shape",
    "TRANSPOSE": "input perm",
    "PAD": "input paddings",
    "PADV2": "input paddings constant_values",
    "MIRROR_PAD": "input paddings",
    "PRELU": "input alpha",
    "RESIZE_BILINEAR": "input size",
    "RESIZE_NEAREST_NEIGHBOR": "input size",
    "SPLIT": "axis input",
    "SPLIT_V": "input size_splits axis",
    "STRIDED_SLICE": "input begin end strides",
    "SLICE": "input begin size",
    "GATHER": "input indices",
    "GATHER_ND": "input indices",
    "TILE": "input multiples",
    "BROADCAST_TO": "input shape",
    "FILL": "shape value",
    "RANGE": "start limit delta",
    "SELECT": "condition x y",
    "SELECT_V2": "condition x y",
    "TOPK_V2": "input k",
    "ONE_HOT": "indices depth on_value off_value",
    "SPACE_TO_BATCH_ND": "input block_shape paddings",
    "BATCH_TO_SPACE_ND": "input block_shape crops",
    "EMBEDDING_LOOKUP": "indices table",
    "RFFT2D": "input fft_length",
    "IF": "cond",
    "DYNAMIC_UPDATE_SLICE": "input update begin",
    "SCATTER_ND": "indices updates shape",
    "ASSIGN_VARIABLE": "resource value",
    "READ_VARIABLE": "resource",
}
SHAPES = frozenset((
    "shape", "axis", "perm", "paddings", "begin", "size", "end", "strides", "multiples", "output_shape", "size_splits",
    "block_shape", "crops", "k", "depth", "fft_length",
))  # fmt: skip
"""operands that are numbers of a shape: they are written among an operator's arguments where they are constants"""


def input_names(type: str, count: int) -> tuple[str, ...]:
    """Return a name for each operand of an operator type."""
    names = _NAMES.get(type, "input" if count == 1 and type not in LISTS else "").split()[:count]
    begin = MEMBER if names or type in LISTS else "input "
    return (*names, *[f"{begin}{place}" for place in range(count - len(names))])
