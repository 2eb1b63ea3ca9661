"""Windows over signals (N, C, L) and images (N, C, H, W): what convolution and pooling read of their attributes."""

from __future__ import annotations

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.operator_inputs import word
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import reshape
from explorer.ops.nn.kernels.window import Padding, Pair

_AUTO = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def as_image(op: OperatorContext, x: Expr) -> Expr:
    """Return a signal as an image of one row, an image as it is; raises OperandError for volumes."""
    _check(op, x)
    return x if x.ndim == 4 else reshape(x, (*x.shape[:2], 1, x.shape[2]))


def _check(op: OperatorContext, x: Expr) -> None:
    if x.ndim not in (3, 4):
        raise OperandError(
            f"given {x.type}",
            rule=f"{op.definition.type}: X must be signals (N, C, L) or images (N, C, H, W)",
        )


def like(x: Expr, y: Expr) -> Expr:
    """Return an image of one row as a signal again if x was one."""
    return y if x.ndim == 4 else reshape(y, (*y.shape[:2], y.shape[3]))


def pair(op: OperatorContext, x: Expr, name: str, default: int = 1) -> Pair:
    """Return an attribute with one number for each spatial axis of x, as rows and columns."""
    _check(op, x)
    values = op.integers(name, (default,) * (x.ndim - 2))
    if len(values) != x.ndim - 2:
        raise OperandError(f"{name}={values} for {x.type}", rule=f"{name} must have one number for each spatial axis")
    return (default, values[0]) if len(values) == 1 else (values[0], values[1])


def padding(op: OperatorContext, x: Expr, size: Pair, strides: Pair, dilation: Pair) -> Padding:
    """Return the padding ((top, bottom), (left, right)) of an image or signal, from ``pads`` or ``auto_pad``."""
    _check(op, x)
    auto = word(op, "auto_pad", "NOTSET", _AUTO)
    if auto == "VALID":
        return (0, 0), (0, 0)
    if auto == "NOTSET":
        count = x.ndim - 2
        pads = op.integers("pads", (0,) * (2 * count))
        if len(pads) != 2 * count:
            raise OperandError(f"pads={pads} for {x.type}", rule="pads must have two numbers for each spatial axis")
        # ONNX lists the starts of all axes, then the ends
        sides = [(pads[axis], pads[axis + count]) for axis in range(count)]
        return ((0, 0), sides[0]) if count == 1 else (sides[0], sides[1])
    lengths = (1, *x.shape[2:])[-2:]
    widths = []
    for length, window, step, gap in zip(lengths, size, strides, dilation, strict=True):
        # as many results as ⌈length / stride⌉: so much padding completes the last window
        total = max((-(-length // step) - 1) * step + gap * (window - 1) + 1 - length, 0)
        small, large = total // 2, total - total // 2
        widths.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return widths[0], widths[1]
