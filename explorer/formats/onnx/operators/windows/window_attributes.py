"""Windows over signals (N, C, L), images (N, C, H, W) and volumes (N, C, D, H, W): attributes of conv and pooling."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.net.operators.context import OperatorContext

_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
Numbers = tuple[int, ...]
Sides = tuple[tuple[int, int], ...]


def check_rank(op: OperatorContext, x: Expr, most: int = 5) -> None:
    """Raise OperandError unless x has one to three spatial axes."""
    if not 3 <= x.ndim <= most:
        volumes = "" if most < 5 else ", or volumes (N, C, D, H, W)"
        raise OperandError(
            f"an operand {x.type}",
            rule=f"{op.definition.type}: X must be signals (N, C, L) or images (N, C, H, W){volumes}",
        )


def for_each_axis(op: OperatorContext, x: Expr, name: str, default: int = 1) -> Numbers:
    """Return an attribute with one number for each spatial axis of x."""
    values = op.integers(name, (default,) * (x.ndim - 2))
    if len(values) != x.ndim - 2:
        raise OperandError(f"{name}={values} for {x.type}", rule=f"{name} must have one number for each spatial axis")
    return tuple(values)


def check_kernel_shape(op: OperatorContext, filters: Expr) -> None:
    """Raise OperandError for an attribute kernel_shape that is not that of the filters."""
    size = filters.shape[2:]
    named = op.integers("kernel_shape", size)
    if named != size:
        raise OperandError(
            f"kernel_shape={named} with filters {filters.type}",
            rule=f"{op.definition.type}: kernel_shape must be that of the filters, {size}",
        )


def padding(op: OperatorContext, x: Expr, size: Numbers, strides: Numbers, dilation: Numbers) -> Sides:
    """Return the padding (before, after) of each spatial axis of x, from ``pads`` or ``auto_pad``."""
    auto = op.word("auto_pad", "NOTSET", _AUTO)
    count = x.ndim - 2
    if auto == "VALID":
        return ((0, 0),) * count
    if auto == "NOTSET":
        pads = op.integers("pads", (0,) * (2 * count))
        if len(pads) != 2 * count:
            raise OperandError(f"pads={pads} for {x.type}", rule="pads must have two numbers for each spatial axis")
        # ONNX lists the starts of all axes, then the ends
        return tuple((pads[axis], pads[axis + count]) for axis in range(count))
    widths = []
    for length, window, step, gap in zip(x.shape[2:], size, strides, dilation, strict=True):
        # as many results as ⌈length / stride⌉: so much padding completes the last window
        total = max((-(-length // step) - 1) * step + gap * (window - 1) + 1 - length, 0)
        small, large = total // 2, total - total // 2
        widths.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return tuple(widths)
