"""Attributes of convolution and pooling of signals (N, C, L), images (N, C, H, W) and volumes (N, C, D, H, W)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.signature import Ints

AutoPad: TypeAlias = Literal["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]
Sides: TypeAlias = tuple[tuple[int, int], ...]


def check_rank(x: Expr) -> None:
    """Raise OperandError unless x has one to three spatial axes."""
    if not 3 <= x.ndim <= 5:
        raise OperandError(
            f"an operand {x.type}",
            rule="X must be signals (N, C, L), images (N, C, H, W) or volumes (N, C, D, H, W)",
        )


@dataclass(frozen=True)
class WindowAttributes:
    """Attributes of windows: ``auto_pad``, and lists with one number per spatial axis (two for ``pads``)."""

    kernel_shape: Ints | None = None
    strides: Ints | None = None
    dilations: Ints | None = None
    pads: Ints | None = None
    auto_pad: AutoPad = "NOTSET"

    def steps(self, x: Expr) -> tuple[Ints, Ints]:
        """Return the strides and dilations for the spatial axes of x."""
        return for_each_axis(x, "strides", self.strides), for_each_axis(x, "dilations", self.dilations)

    def check_filters(self, filters: Expr) -> None:
        """Raise OperandError if kernel_shape differs from the filters' shape."""
        size = filters.shape[2:]
        if self.kernel_shape not in (None, size):
            raise OperandError(
                f"kernel_shape={self.kernel_shape} with filters {filters.type}",
                rule=f"kernel_shape must be the filters' shape, {size}",
            )

    def padding(self, x: Expr, size: Ints) -> Sides:
        """Return the padding (before, after) of each spatial axis of x for windows of the given size."""
        count, pads = x.ndim - 2, self.pads
        if self.auto_pad == "VALID" or (self.auto_pad == "NOTSET" and pads is None):
            return ((0, 0),) * count
        if self.auto_pad == "NOTSET" and pads is not None:
            if len(pads) != 2 * count:
                raise OperandError(f"pads={pads} for {x.type}", rule="pads must have two numbers for each spatial axis")
            # ONNX lists the starts of all axes, then the ends
            return tuple((pads[axis], pads[axis + count]) for axis in range(count))
        widths = []
        for length, window, step, gap in zip(x.shape[2:], size, *self.steps(x), strict=True):
            # there are ⌈length / stride⌉ windows; pad so that the last one fits
            total = max((-(-length // step) - 1) * step + gap * (window - 1) + 1 - length, 0)
            small, large = total // 2, total - total // 2
            widths.append((small, large) if self.auto_pad == "SAME_UPPER" else (large, small))
        return tuple(widths)


def for_each_axis(x: Expr, name: str, values: Ints | None, default: int = 1) -> Ints:
    """Return the attribute ``values`` with one number per spatial axis of x; ``default`` if it is omitted."""
    if values is None:
        return (default,) * (x.ndim - 2)
    if len(values) != x.ndim - 2:
        raise OperandError(f"{name}={values} for {x.type}", rule=f"{name} must have one number for each spatial axis")
    return values
