"""Convolution, pooling, resizing, activations, softmax and losses.

explorer's windows have padding for each side, as ONNX's have: only its order differs. Gradients of layers are refused
with their reason, except those that are themselves layers forwards, such as a transposed convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, unwritten, written
from explorer.ops.nn.kernels.window import Padding

_ONLY_FORWARDS = "gradients are for training, and a file holds what is computed forwards"


def _window(node: Any) -> dict[str, Any]:
    operation = node.operation
    return {
        "strides": list(operation.strides),
        "dilations": list(operation.dilation),
        "pads": _pads(operation.padding),
    }


def _pads(padding: Padding) -> list[int]:
    """Return ONNX's list: the starts of all axes, then the ends."""
    return [before for before, _ in padding] + [after for _, after in padding]


@written("conv2d", "direct_conv2d", "winograd_conv2d")
def convolution(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Cross-correlation of images with filters."""
    size = list(node.operands[1].shape[2:])
    return graph.node(
        "Conv", *graph.operands(node, names), kernel_shape=size, group=node.operation.groups, **_window(node)
    )


@written("conv2d_image_gradient")
def transposed_convolution(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Convolution's adjoint, which is the transposed convolution; what is lost by strides is padded behind."""
    operation = node.operation
    size, padding = node.operands[1].shape[2:], operation.padding
    extra, others = (
        [
            length - ((have - 1) * step + (window - 1) * gap + 1 - before - after)
            for length, have, step, window, gap, (before, after) in zip(
                each.shape[2:],
                each.operands[0].shape[2:],
                operation.strides,
                size,
                operation.dilation,
                padding,
                strict=True,
            )
        ]
        for each in (node, graph.counterpart(node))
    )
    if extra != others:
        raise graph.depends(node, "a padding that is computed from unknown lengths")
    return graph.node(
        "ConvTranspose",
        *graph.operands(node, names),
        kernel_shape=list(size),
        group=operation.groups,
        output_padding=extra if any(extra) else None,
        **_window(node),
    )


@written("max_pool2d")
def max_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """The largest pixel of each window."""
    size = list(node.operation.size)
    return graph.node("MaxPool", x, kernel_shape=size, ceil_mode=int(node.operation.ceil), **_window(node))


@written("avg_pool2d")
def average_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """The mean of each window."""
    return graph.node(
        "AveragePool",
        *graph.operands(node, [x]),
        kernel_shape=list(node.operation.size),
        ceil_mode=int(node.operation.ceil),
        count_include_pad=int(node.operation.count_padding),
        **_window(node),
    )


@written("adaptive_avg_pool2d")
def adaptive_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """Means of windows that cover the images evenly: of all pixels, of equal windows, or by a matrix for each axis."""
    (x,) = graph.operands(node, [x])
    output, size = node.operation.output, node.operands[0].shape[2:]
    if tuple(output) == (1, 1):
        return graph.node("GlobalAveragePool", x)
    if size != graph.counterpart(node).operands[0].shape[2:]:
        raise graph.depends(node, "the size of its windows")
    if not any(length % windows for length, windows in zip(size, output, strict=True)):
        steps = [length // windows for length, windows in zip(size, output, strict=True)]
        return graph.node("AveragePool", x, kernel_shape=steps, strides=steps)
    rows, columns = (_shares(length, windows) for length, windows in zip(size, output, strict=True))
    x = graph.node("MatMul", graph.constant(rows, node.dtype), x)
    return graph.node("MatMul", x, graph.constant(columns.T, node.dtype))


def _shares(length: int, windows: int) -> Any:
    """Return the share of each pixel of an axis in each window's mean, (windows, length)."""
    shares = np.zeros((windows, length))
    for window in range(windows):
        start, stop = window * length // windows, -(-(window + 1) * length // windows)
        shares[window, start:stop] = 1 / (stop - start)
    return shares


@written("resample")
def resample(graph: GraphWriter, node: Any, x: str) -> Any:
    """One axis in another length: a product with the weights of the old elements, or the nearest of them."""
    operation, operand = node.operation, node.operands[0]
    axis, length = operation.axis, operand.shape[operation.axis]
    if (
        length != graph.counterpart(node).operands[0].shape[axis]
        or node.shape[axis] != graph.counterpart(node).shape[axis]
    ):
        raise graph.depends(node, "the lengths of the axis that is resized")
    places, weights = operation.taps(length)
    if len(places) == 1:
        return graph.node("Gather", x, graph.constant(places[0]), axis=axis)
    matrix = np.zeros((length, operation.length))
    np.add.at(matrix, (places, np.broadcast_to(np.arange(operation.length), places.shape)), weights)
    order = [*[at for at in range(node.ndim) if at != axis], axis]
    (x,) = graph.operands(node, [x])
    turned = graph.node("Transpose", x, perm=order) if axis != node.ndim - 1 else x
    result = graph.node("MatMul", turned, graph.constant(matrix, node.dtype))
    back = [order.index(at) for at in range(node.ndim)]
    return graph.node("Transpose", result, perm=back) if axis != node.ndim - 1 else result


# -- activations -------------------------------------------------------------------------------------------------------


@written("clip")
def clip(graph: GraphWriter, node: Any, x: str) -> Any:
    """x kept between two numbers."""
    low, high = (
        "" if limit is None else graph.constant(limit, node.dtype)
        for limit in (node.operation.low, node.operation.high)
    )
    return graph.node("Clip", *graph.operands(node, [x]), low, *[high] * bool(high))


@written("silu")
def silu(graph: GraphWriter, node: Any, x: str) -> Any:
    """x · σ(x)."""
    (x,) = graph.operands(node, [x])
    return graph.node("Mul", x, graph.node("Sigmoid", x))


@written("hardsigmoid", "hardswish")
def hard(graph: GraphWriter, node: Any, x: str) -> Any:
    """x / 6 + 1/2 kept between 0 and 1, or x times that."""
    (x,) = graph.operands(node, [x])
    if node.dtype == np.float64:
        # the operators' 1/6 is an attribute of single precision
        sixth, half, zero, one = (graph.constant(value, node.dtype) for value in (1 / 6, 0.5, 0, 1))
        result = graph.node("Clip", graph.node("Add", graph.node("Mul", x, sixth), half), zero, one)
        return graph.node("Mul", x, result) if node.operation.name == "hardswish" else result
    if node.operation.name == "hardswish":
        return graph.node("HardSwish", x)
    return graph.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@written("leaky_relu")
def leaky_relu(graph: GraphWriter, node: Any, x: str) -> Any:
    """x, or a multiple of it below 0."""
    return graph.node("LeakyRelu", *graph.operands(node, [x]), alpha=float(node.operation.slope))


@written("gelu")
def gelu(graph: GraphWriter, node: Any, x: str) -> Any:
    """x · Φ(x)."""
    approximate = "tanh" if node.operation.approximate else "none"
    return graph.node("Gelu", *graph.operands(node, [x]), approximate=approximate)


# -- whole rows --------------------------------------------------------------------------------------------------------


@written("softmax", "log_softmax")
def softmax(graph: GraphWriter, node: Any, x: str) -> Any:
    """Softmax over an axis, or its logarithm; over several of their elements in one row."""
    (x,) = graph.operands(node, [x])
    type = "Softmax" if node.operation.name == "softmax" else "LogSoftmax"
    axes = list(node.operation.axes)
    if len(axes) == 1:
        return graph.node(type, x, axis=axes[0])
    order = [*[axis for axis in range(node.ndim) if axis not in axes], *axes]
    turned = graph.node("Transpose", x, perm=order)
    shape = graph.node("Shape", turned)
    rows = graph.node("Flatten", turned, axis=node.ndim - len(axes))
    result = graph.node("Reshape", graph.node(type, rows, axis=1), shape)
    return graph.node("Transpose", result, perm=[order.index(axis) for axis in range(node.ndim)])


@written("softmax_gradient")
def softmax_gradient(graph: GraphWriter, node: Any, *names: str) -> Any:
    """y · (g − Σ g · y)."""
    g, y = graph.operands(node, names)
    axes = graph.constant(list(node.operation.axes))
    total = graph.node("ReduceSum", graph.node("Mul", g, y), axes, keepdims=1)
    return graph.node("Mul", y, graph.node("Sub", g, total))


@written("logsumexp")
def logsumexp(graph: GraphWriter, node: Any, x: str) -> Any:
    """log(scale · Σ eˣ) over axes, with the largest element subtracted first."""
    (x,) = graph.operands(node, [x])
    axes, keepdims = graph.constant(list(node.operation.axes)), int(node.operation.keepdims)
    largest = graph.node("ReduceMax", x, axes, keepdims=1)
    total = graph.node("ReduceSum", graph.node("Exp", graph.node("Sub", x, largest)), axes, keepdims=1)
    if node.operation.scale != 1:
        total = graph.node("Mul", total, graph.constant(node.operation.scale, node.dtype))
    result = graph.node("Add", graph.node("Log", total), largest)
    return result if keepdims else graph.node("Squeeze", result, axes)


@written("nll_loss")
def nll_loss(graph: GraphWriter, node: Any, *names: str) -> Any:
    """−Σ t · log p / Σ t."""
    truth, prediction = graph.operands(node, names)
    product = graph.node("Mul", truth, graph.node("Log", prediction))
    total, weights = (graph.node("ReduceSum", name, keepdims=0) for name in (product, truth))
    return graph.node("Neg", graph.node("Div", total, weights))


unwritten(
    _ONLY_FORWARDS,
    "conv2d_filter_gradient",
    "max_pool2d_gradient",
    "largest_pixels",
    "avg_pool2d_gradient",
    "adaptive_avg_pool2d_gradient",
    "resample_gradient",
    "nll_loss_gradient",
)
