"""Modules of torch.nn with their parameters: convolution, normalization, linear maps, pooling, look-up."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.expr import Expr
from explorer.formats.pnnx.operators.table import file_operator
from explorer.net.context import OperatorContext
from explorer.ops.base import reshape
from explorer.ops.conv import conv2d
from explorer.ops.lookup import embedding
from explorer.ops.norm import batch_norm
from explorer.ops.pool import adaptive_avg_pool2d, avg_pool2d, max_pool2d
from explorer.ops.statistics import layer_norm
from explorer.ops.window import Padding


@file_operator("nn.Conv2d")
def convolution(op: OperatorContext) -> Expr:
    """Cross-correlation; padding is a number an axis, "same" or "valid"."""
    op.only("padding_mode", "zeros")
    dilation, kernel = op.pair("dilation", 1), op.pair("kernel_size")
    return conv2d(
        op.x,
        op.weight("weight"),
        op.weight("bias") if op.flag("bias", True) else None,
        strides=op.pair("stride", 1),
        padding=_padding(op, kernel, dilation),
        dilation=dilation,
        groups=op.integer("groups", 1),
    )


def _padding(op: OperatorContext, kernel: tuple[int, int], dilation: tuple[int, int]) -> Padding:
    given = op.argument("padding", 0)
    if given == "valid":
        return (0, 0), (0, 0)
    if given == "same":
        rows, columns = (step * (size - 1) for step, size in zip(dilation, kernel, strict=True))
        return (rows // 2, rows - rows // 2), (columns // 2, columns - columns // 2)
    above, left = op.pair("padding", 0)
    return (above, above), (left, left)


@file_operator("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d")
def batch_normalization(op: OperatorContext) -> Expr:
    """Normalization with the stored statistics."""
    scaled = op.flag("affine", True)
    return batch_norm(
        op.x,
        op.weight("running_mean"),
        op.weight("running_var"),
        op.weight("weight") if scaled else None,
        op.weight("bias") if scaled else None,
        op.number("eps", 1e-5),
    )


@file_operator("nn.LayerNorm")
def layer_normalization(op: OperatorContext) -> Expr:
    """Normalization over the last axes, those of ``normalized_shape``."""
    axes = len(op.integers("normalized_shape"))
    return layer_norm(
        op.x, op.optional_weight("weight"), op.optional_weight("bias"), axes=axes, epsilon=op.number("eps", 1e-5)
    )


@file_operator("nn.Linear")
def linear(op: OperatorContext) -> Expr:
    """x · Wᵀ + b."""
    bias = op.weight("bias") if op.flag("bias", True) else None
    y = op.x @ op.weight("weight").T
    return y if bias is None else y + bias


@file_operator("nn.Embedding")
def look_up(op: OperatorContext) -> Expr:
    """Rows of a table by number."""
    return embedding(op.weight("weight"), op.x)


@file_operator("nn.MaxPool2d", "F.max_pool2d")
def max_pool(op: OperatorContext) -> Expr:
    """The largest pixel of each window."""
    op.only("return_indices", False)
    return max_pool2d(
        op.x,
        op.pair("kernel_size"),
        _strides(op),
        op.pair("padding", 0),
        op.pair("dilation", 1),
        op.flag("ceil_mode", False),
    )


@file_operator("nn.AvgPool2d", "F.avg_pool2d")
def avg_pool(op: OperatorContext) -> Expr:
    """The mean of each window."""
    op.only("divisor_override", None)
    return avg_pool2d(
        op.x,
        op.pair("kernel_size"),
        _strides(op),
        op.pair("padding", 0),
        op.flag("ceil_mode", False),
        op.flag("count_include_pad", True),
    )


def _strides(op: OperatorContext) -> tuple[int, int]:
    return op.pair("kernel_size" if op.argument("stride", None) is None else "stride")


@file_operator("nn.AdaptiveAvgPool2d", "F.adaptive_avg_pool2d")
def adaptive_avg_pool(op: OperatorContext) -> Expr:
    """The means of windows that cover the image evenly; a size None is the image's own."""
    x, given = op.x, op.argument("output_size")
    sizes: tuple[Any, ...] = given if isinstance(given, tuple) else (given, given)
    if x.ndim != 4 or len(sizes) != 2:
        raise OperandError(
            f"output_size={given!r} for {x.type}", rule="images are (N, C, H, W), sizes one or two numbers"
        )
    rows, columns = (x.shape[2 + axis] if size is None else size for axis, size in enumerate(sizes))
    return adaptive_avg_pool2d(x, (rows, columns))


@file_operator("nn.Flatten", "torch.flatten")
def flatten(op: OperatorContext) -> Expr:
    """Axes start_dim … end_dim merged into one."""
    from explorer.ops.movement import flatten as merged

    return merged(
        op.x, op.integer("start_dim", 1 if op.definition.type == "nn.Flatten" else 0), op.integer("end_dim", -1)
    )


@file_operator(
    "nn.Dropout", "nn.Dropout2d", "nn.Identity", "F.dropout", "Tensor.contiguous", "torch.clone", "Tensor.detach"
)
def identity(op: OperatorContext) -> Expr:
    """The operand itself: a file holds a net that is not training."""
    return op.x


@file_operator("pnnx.Attribute")
def attribute(op: OperatorContext) -> Expr:
    """A constant of the file."""
    (name,) = op.definition.weights
    return op.weight(name)


@file_operator("nn.Upsample", "F.upsample", "F.interpolate")
def upsample(op: OperatorContext) -> Expr:
    """Pixels repeated by whole factors (mode nearest)."""
    op.only("mode", "nearest")
    x = op.x
    if x.ndim != 4:
        raise OperandError(f"given {x.type}", rule="images are (N, C, H, W)")
    rows, columns = _factors(op, x)
    n, c, h, w = x.shape
    from explorer.ops.movement import broadcast_to

    return reshape(
        broadcast_to(reshape(x, (n, c, h, 1, w, 1)), (n, c, h, rows, w, columns)), (n, c, h * rows, w * columns)
    )


def _factors(op: OperatorContext, x: Expr) -> tuple[int, int]:
    size, scale = op.argument("size", None), op.argument("scale_factor", None)
    if size is not None:
        wanted = op.pair("size")
        factors = [new / old for new, old in zip(wanted, x.shape[2:], strict=True)]
    else:
        factors = [*scale] if isinstance(scale, tuple) else [scale, scale]
    if len(factors) != 2 or not all(isinstance(f, (int, float)) and f >= 1 and f == int(f) for f in factors):
        raise OperandError(
            f"size={size!r}, scale_factor={scale!r} for {x.type}",
            rule="images grow by whole factors",
            fix="register the type",
        )
    return int(factors[0]), int(factors[1])
