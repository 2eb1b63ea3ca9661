"""Neural network operator types: linear maps, convolution, pooling, activations.

Names, arguments and defaults are the same as in Caffe2. Images are NCHW. ``kernel``, ``stride`` and ``pad`` are a pair,
or one number for both axes. The operators record operations from ``explorer.ops.nn``.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import normalize_axis
from explorer.net.operators.caffe2.table import net_operator
from explorer.ops.base import reshape
from explorer.ops.elementwise.unary import relu, sigmoid, tanh
from explorer.ops.manipulation.reshape import flatten
from explorer.ops.nn.adaptive_pooling import adaptive_avg_pool2d
from explorer.ops.nn.conv import conv2d
from explorer.ops.nn.pooling import avg_pool2d, max_pool2d
from explorer.ops.nn.softmax import softmax

Size: TypeAlias = int | tuple[int, int]
"""one number for rows and columns, or a pair"""


@net_operator()
def FC(x: Expr, w: Expr, b: Expr | None = None, *, axis: Annotated[int, "the first axis of a row"] = 1) -> Expr:
    """Return x · Wᵀ + b of shape (…, N) for x of shape (…, K), w of shape (N, K) and b of shape (N,)."""
    first = normalize_axis(axis, x.ndim, "FC")
    rows = x if first == x.ndim - 1 else flatten(x, first)
    y = rows @ w.T
    return y if b is None else y + b


@net_operator()
def Conv(
    x: Expr,
    w: Expr,
    b: Expr | None = None,
    *,
    kernel: Annotated[Size | None, "h and w, as in the filters' shape"] = None,
    stride: Size = 1,
    pad: Size = 0,
    dilation: Size = 1,
    group: int = 1,
) -> Expr:
    """Return the cross-correlation of images (N, C, H, W) with filters (M, C / group, h, w) and a bias (M,)."""
    if kernel is not None and w.shape[2:] != ((kernel, kernel) if isinstance(kernel, int) else tuple(kernel)):
        raise OperandError(
            f"kernel={kernel} with filters {w.type}",
            rule="Conv: kernel must be the size of the filters' last two axes",
            fix="leave kernel out, or give filters with that size",
        )
    return conv2d(x, w, b, strides=stride, padding=pad, dilation=dilation, groups=group)


@net_operator()
def MaxPool(
    x: Expr,
    *,
    kernel: Size | None = None,
    stride: Size = 1,
    pad: Size = 0,
    dilation: Size = 1,
    global_pooling: Annotated[bool, "the window is the whole image; without kernel"] = False,
) -> Expr:
    """Return the maximum of each window of images (N, C, H, W)."""
    if global_pooling:
        _refuse_kernel("MaxPool", kernel)
        return x.max((2, 3), keepdims=True)
    return max_pool2d(x, _kernel("MaxPool", kernel), stride, pad, dilation)


@net_operator()
def AveragePool(
    x: Expr,
    *,
    kernel: Size | None = None,
    stride: Size = 1,
    pad: Size = 0,
    count_include_pad: Annotated[bool, "include padding in the mean"] = False,
    global_pooling: Annotated[bool, "the window is the whole image; without kernel"] = False,
) -> Expr:
    """Return the mean of each window of images (N, C, H, W)."""
    if global_pooling:
        _refuse_kernel("AveragePool", kernel)
        return adaptive_avg_pool2d(x, 1)
    return avg_pool2d(x, _kernel("AveragePool", kernel), stride, pad, False, count_include_pad)


def _kernel(type: str, kernel: Size | None) -> Size:
    if kernel is None:
        raise OperandError(
            "the argument 'kernel' is missing",
            rule=f"{type} must have it unless global_pooling=True",
            fix="give kernel=2",
        )
    return kernel


def _refuse_kernel(type: str, kernel: Size | None) -> None:
    if kernel is not None:
        raise OperandError(
            f"kernel={kernel} with global_pooling=True",
            rule=f"{type}: with global_pooling=True kernel must be omitted, since the window is the whole image",
            fix="leave one of the two out",
        )


@net_operator(in_place=True, by_output=True)
def Relu(x: Expr) -> Expr:
    """Return max(x, 0), elementwise."""
    return relu(x)


@net_operator(in_place=True, by_output=True)
def Sigmoid(x: Expr) -> Expr:
    """Return 1 / (1 + e⁻ˣ), elementwise."""
    return sigmoid(x)


@net_operator(in_place=True, by_output=True)
def Tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent, elementwise."""
    return tanh(x)


@net_operator(in_place=True, by_output=True)
def Softmax(x: Expr, *, axis: Annotated[int, "the first axis of the sum"] = 1) -> Expr:
    """Return eˣ / Σ eˣ, with the sum over ``axis`` and all later axes."""
    return softmax(x, tuple(range(normalize_axis(axis, x.ndim, "Softmax"), x.ndim)))


@net_operator()
def Flatten(x: Expr, *, axis: int = 1) -> Expr:
    """Return the elements as a matrix; the axes before ``axis`` become its rows, and the other axes its columns."""
    first = axis if axis == x.ndim else normalize_axis(axis, x.ndim, "Flatten")
    rows = 1
    for size in x.shape[:first]:
        rows *= size
    return reshape(x, (rows, x.size // rows if rows else 0))
