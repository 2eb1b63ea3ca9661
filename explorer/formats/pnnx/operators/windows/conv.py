"""Convolutions: modules with weights, and functions with operands.

pnnx writes a torch module as an operator with weights (nn.Conv2d), and a call of a function as an operator with
operands (F.conv2d). One builder supports both forms.
"""

from __future__ import annotations

from typing import Annotated, Literal

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import each_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.windows.padding import padded
from explorer.net.operators.signature import FlaggedWeight, Ints, Names, Unused
from explorer.ops.nn.conv import conv
from explorer.ops.nn.conv_transpose import conv_transpose

Channels = Annotated[Unused, Names("in_channels", "out_channels")]
"""numbers of channels, which the filters determine"""
Padding = Ints | Literal["same", "valid"]


def _check_filters(filters: Expr, axes: int, kernel_size: Ints | None) -> None:
    size = filters.shape[2:] if kernel_size is None else each_axis("kernel_size", kernel_size, axes)
    if filters.ndim != axes + 2 or filters.shape[2:] != size:
        raise OperandError(
            f"filters {filters.type}" + (f" with kernel_size={size}" if kernel_size else ""),
            rule=f"the filters must have {axes + 2} axes, and the last ones must have the lengths kernel_size",
        )


def _sides(padding: Padding, size: Ints, dilation: Ints) -> tuple[tuple[int, int], ...]:
    """Return the padding (before, after) of each axis; if "same" padding is odd, the additional pixel is at the end."""
    if padding == "valid":
        return ((0, 0),) * len(size)
    if padding == "same":
        reach = [step * (length - 1) for step, length in zip(dilation, size, strict=True)]
        return tuple([(length // 2, length - length // 2) for length in reach])
    assert isinstance(padding, tuple)
    return tuple([(width, width) for width in each_axis("padding", padding, len(size))])


def _register(axes: int) -> None:
    @file_operator(f"nn.Conv{axes}d", f"F.conv{axes}d")
    def convolution(
        input: Expr,
        weight: Expr,
        bias: FlaggedWeight = None,
        *,
        kernel_size: Ints | None = None,
        stride: Ints = (1,),
        padding: Padding = (0,),
        dilation: Ints = (1,),
        groups: int = 1,
        padding_mode: Literal["zeros", "constant", "reflect", "replicate", "circular"] = "zeros",
        channels: Channels,
    ) -> Expr:
        _check_filters(weight, axes, kernel_size)
        gaps = each_axis("dilation", dilation, axes)
        sides = _sides(padding, weight.shape[2:], gaps)
        if padding_mode != "zeros" and any(map(any, sides)):
            # in F.pad's order, with the last axis first
            input = padded(input, padding_mode, tuple([width for pair in reversed(sides) for width in pair]))
            sides = ((0, 0),) * axes
        return conv(input, weight, bias, axes, each_axis("stride", stride, axes), sides, gaps, groups)

    convolution.__doc__ = 'Compute a cross-correlation; padding is one number for each axis, "same" or "valid".'

    @file_operator(f"nn.ConvTranspose{axes}d", f"F.conv_transpose{axes}d")
    def transposed(
        input: Expr,
        weight: Expr,
        bias: FlaggedWeight = None,
        *,
        kernel_size: Ints | None = None,
        stride: Ints = (1,),
        padding: Ints = (0,),
        output_padding: Ints = (0,),
        dilation: Ints = (1,),
        groups: int = 1,
        padding_mode: Literal["zeros"] = "zeros",
        channels: Channels,
    ) -> Expr:
        _check_filters(weight, axes, kernel_size)
        steps, sides, extra, gaps = (
            each_axis(name, values, axes)
            for name, values in (
                ("stride", stride),
                ("padding", padding),
                ("output_padding", output_padding),
                ("dilation", dilation),
            )
        )
        return conv_transpose(input, weight, bias, axes, steps, sides, extra, gaps, groups)

    transposed.__doc__ = "Compute a transposed convolution."


for _axes in (1, 2, 3):
    _register(_axes)
