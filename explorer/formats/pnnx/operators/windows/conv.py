"""Convolutions: modules with their weights, and functions that are given them.

PNNX keeps a module of torch as one operator with weights (nn.Conv2d), and a call of a function as one with operands
(F.conv2d). Both are built here by one function, which differs only in where filters and bias come from.
"""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import sizes, tensor_or_none
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.windows.padding import MODES, padded
from explorer.net.operators.context import OperatorContext
from explorer.ops.nn.conv import conv
from explorer.ops.nn.conv_transpose import conv_transpose

_CHANNELS = ("in_channels", "out_channels")
"""numbers that the filters have, too"""


def _filters(op: OperatorContext, axes: int) -> tuple[Expr, Expr | None]:
    """The filters and the bias of a module, or of a function, which is given them as operands."""
    filters: Expr
    bias: Expr | None
    if op.definition.type.startswith("nn."):
        size = sizes(op, "kernel_size", axes) if op.has("kernel_size") else None
        filters, bias = op.weight("weight"), op.weight("bias") if op.flag("bias", True) else None
    else:
        size = None
        filters, bias = op.tensor(1, "weight"), tensor_or_none(op, 2, "bias")
    if filters.ndim != axes + 2 or (size is not None and filters.shape[2:] != size):
        raise OperandError(
            f"filters {filters.type}" + (f" with kernel_size={size}" if size else ""),
            rule=f"{op.definition.type}: the filters must have {axes + 2} axes, the last ones of its kernel_size",
        )
    return filters, bias


def _sides(op: OperatorContext, filters: Expr, dilation: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Padding as (before, after) for each axis; "same" pads an even filter more at the end."""
    axes, padding = len(dilation), op.argument("padding", 0)
    if padding == "valid":
        return ((0, 0),) * axes
    if padding == "same":
        reach = [step * (size - 1) for step, size in zip(dilation, filters.shape[2:], strict=True)]
        # an even filter has an odd reach: torch pads the odd pixel at the end
        return tuple([(length // 2, length - length // 2) for length in reach])
    return tuple([(size, size) for size in sizes(op, "padding", axes, 0)])


def _convolve(op: OperatorContext, axes: int) -> Expr:
    strides, dilation = sizes(op, "stride", axes, 1), sizes(op, "dilation", axes, 1)
    mode = op.argument("padding_mode", "zeros")
    if mode not in MODES:
        raise OperandError(
            f"padding_mode={mode!r}", rule=f"{op.definition.type}: padding_mode must be one of {', '.join(MODES)}"
        )
    filters, bias = _filters(op, axes)
    sides, x = _sides(op, filters, dilation), op.x
    if mode != "zeros" and any(map(any, sides)):
        # F.pad's order: the last axis first
        x = padded(op, mode, tuple([width for pair in reversed(sides) for width in pair]))
        sides = ((0, 0),) * axes
    return conv(x, filters, bias, axes, strides, sides, dilation, op.integer("groups", 1))


def _convolve_back(op: OperatorContext, axes: int) -> Expr:
    op.only("padding_mode", "zeros")
    filters, bias = _filters(op, axes)
    names = ("stride", "padding", "output_padding", "dilation")
    stride, padding, extra, dilation = (sizes(op, name, axes, int(name in ("stride", "dilation"))) for name in names)
    return conv_transpose(op.x, filters, bias, axes, stride, padding, extra, dilation, op.integer("groups", 1))


def _enter(axes: int) -> None:
    @file_operator(f"nn.Conv{axes}d", f"F.conv{axes}d", ignored=_CHANNELS)
    def convolution(op: OperatorContext) -> Expr:
        return _convolve(op, axes)

    convolution.__doc__ = 'Cross-correlation; padding is a number an axis, "same" or "valid".'

    @file_operator(f"nn.ConvTranspose{axes}d", f"F.conv_transpose{axes}d", ignored=_CHANNELS)
    def transposed(op: OperatorContext) -> Expr:
        return _convolve_back(op, axes)

    transposed.__doc__ = "The adjoint of a convolution."


for _axes in (1, 2, 3):
    _enter(_axes)
