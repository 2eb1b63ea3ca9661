"""Writers of convolution, pooling, resizing, activations, softmax and losses.

Padding in explorer and ONNX is separate for each side of a window, but differs in order. Layer gradients are rejected
with a reason, unless they are also forward layers, such as transposed convolution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, unsupported, writes
from explorer.ops.nn.kernels.window import Padding

_ONLY_FORWARD = "gradients are for training, and a file contains only the forward computation"


def _window(node: Any) -> dict[str, Any]:
    operation = node.operation
    return {
        "strides": list(operation.strides),
        "dilations": list(operation.dilation),
        "pads": _pads(operation.padding),
    }


def _pads(padding: Padding) -> list[int]:
    """Return padding in ONNX's order: the starts of all axes, then the ends."""
    return [before for before, _ in padding] + [after for _, after in padding]


@writes("conv2d", "direct_conv2d", "winograd_conv2d")
def convolution(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the cross-correlation of images with filters."""
    size = list(node.operands[1].shape[2:])
    return graph.node(
        "Conv", *graph.operands(node, names), kernel_shape=size, group=node.operation.groups, **_window(node)
    )


@writes("conv2d_image_gradient")
def transposed_convolution(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the adjoint of a convolution; output_padding adds the pixels that strides skip."""
    operation = node.operation
    size, padding = node.operands[1].shape[2:], operation.padding
    extra, others = (
        [
            length - ((own - 1) * step + (window - 1) * gap + 1 - before - after)
            for length, own, step, window, gap, (before, after) in zip(
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
        raise graph.dependency_error(node, "a padding that is computed from unknown lengths")
    return graph.node(
        "ConvTranspose",
        *graph.operands(node, names),
        kernel_shape=list(size),
        group=operation.groups,
        output_padding=extra if any(extra) else None,
        **_window(node),
    )


@writes("max_pool2d")
def max_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the largest pixel of each window."""
    size = list(node.operation.size)
    return graph.node("MaxPool", x, kernel_shape=size, ceil_mode=int(node.operation.ceil), **_window(node))


@writes("avg_pool2d")
def average_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the mean of each window."""
    return graph.node(
        "AveragePool",
        *graph.operands(node, [x]),
        kernel_shape=list(node.operation.size),
        ceil_mode=int(node.operation.ceil),
        count_include_pad=int(node.operation.count_padding),
        **_window(node),
    )


@writes("adaptive_avg_pool2d")
def adaptive_pool(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write adaptive average pooling as global pooling, as pooling with equal windows, or as matrix products."""
    (x,) = graph.operands(node, [x])
    output, size = node.operation.output, node.operands[0].shape[2:]
    if tuple(output) == (1, 1):
        return graph.node("GlobalAveragePool", x)
    if size != graph.counterpart(node).operands[0].shape[2:]:
        raise graph.dependency_error(node, "the size of its windows")
    if not any(length % windows for length, windows in zip(size, output, strict=True)):
        steps = [length // windows for length, windows in zip(size, output, strict=True)]
        return graph.node("AveragePool", x, kernel_shape=steps, strides=steps)
    rows, columns = (_mean_weights(length, windows) for length, windows in zip(size, output, strict=True))
    x = graph.node("MatMul", graph.constant(rows, node.dtype), x)
    return graph.node("MatMul", x, graph.constant(columns.T, node.dtype))


def _mean_weights(length: int, windows: int) -> Any:
    """Return the weight of each pixel of an axis in each window's mean, (windows, length)."""
    weights = np.zeros((windows, length))
    for window in range(windows):
        start, stop = window * length // windows, -(-(window + 1) * length // windows)
        weights[window, start:stop] = 1 / (stop - start)
    return weights


@writes("resample")
def resample(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the resizing of one axis: as nearest elements, or as a product with interpolation weights."""
    operation, operand = node.operation, node.operands[0]
    axis, length = operation.axis, operand.shape[operation.axis]
    if (
        length != graph.counterpart(node).operands[0].shape[axis]
        or node.shape[axis] != graph.counterpart(node).shape[axis]
    ):
        raise graph.dependency_error(node, "the lengths of the axis that is resized")
    indices, weights = operation.taps(length)
    if len(indices) == 1:
        return graph.node("Gather", x, graph.constant(indices[0]), axis=axis)
    matrix = np.zeros((length, operation.length))
    np.add.at(matrix, (indices, np.broadcast_to(np.arange(operation.length), indices.shape)), weights)
    order = [*[at for at in range(node.ndim) if at != axis], axis]
    (x,) = graph.operands(node, [x])
    transposed = graph.node("Transpose", x, perm=order) if axis != node.ndim - 1 else x
    result = graph.node("MatMul", transposed, graph.constant(matrix, node.dtype))
    back = [order.index(at) for at in range(node.ndim)]
    return graph.node("Transpose", result, perm=back) if axis != node.ndim - 1 else result


@writes("clip")
def clip(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x limited to a range."""
    low, high = (
        "" if limit is None else graph.constant(limit, node.dtype)
        for limit in (node.operation.low, node.operation.high)
    )
    return graph.node("Clip", *graph.operands(node, [x]), low, *[high] * bool(high))


@writes("silu")
def silu(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x · σ(x)."""
    (x,) = graph.operands(node, [x])
    return graph.node("Mul", x, graph.node("Sigmoid", x))


@writes("hardsigmoid", "hardswish")
def hard(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x / 6 + 1/2 limited to [0, 1], or x times this value."""
    (x,) = graph.operands(node, [x])
    if node.dtype == np.float64:
        # the operators store 1/6 as a single-precision attribute
        sixth, half, zero, one = (graph.constant(value, node.dtype) for value in (1 / 6, 0.5, 0, 1))
        result = graph.node("Clip", graph.node("Add", graph.node("Mul", x, sixth), half), zero, one)
        return graph.node("Mul", x, result) if node.operation.name == "hardswish" else result
    if node.operation.name == "hardswish":
        return graph.node("HardSwish", x)
    return graph.node("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@writes("leaky_relu")
def leaky_relu(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x, or a multiple of x where x is negative."""
    return graph.node("LeakyRelu", *graph.operands(node, [x]), alpha=float(node.operation.slope))


@writes("gelu")
def gelu(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write x · Φ(x)."""
    approximate = "tanh" if node.operation.approximate else "none"
    return graph.node("Gelu", *graph.operands(node, [x]), approximate=approximate)


@writes("softmax", "log_softmax")
def softmax(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write softmax or its logarithm; several axes are flattened to one."""
    (x,) = graph.operands(node, [x])
    type = "Softmax" if node.operation.name == "softmax" else "LogSoftmax"
    axes = list(node.operation.axes)
    if len(axes) == 1:
        return graph.node(type, x, axis=axes[0])
    order = [*[axis for axis in range(node.ndim) if axis not in axes], *axes]
    transposed = graph.node("Transpose", x, perm=order)
    shape = graph.node("Shape", transposed)
    rows = graph.node("Flatten", transposed, axis=node.ndim - len(axes))
    result = graph.node("Reshape", graph.node(type, rows, axis=1), shape)
    return graph.node("Transpose", result, perm=[order.index(axis) for axis in range(node.ndim)])


@writes("softmax_gradient")
def softmax_gradient(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write y · (g − Σ g · y)."""
    g, y = graph.operands(node, names)
    axes = graph.constant(list(node.operation.axes))
    total = graph.node("ReduceSum", graph.node("Mul", g, y), axes, keepdims=1)
    return graph.node("Mul", y, graph.node("Sub", g, total))


@writes("logsumexp")
def logsumexp(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write log(scale · Σ eˣ) over axes, subtracting the largest element first."""
    (x,) = graph.operands(node, [x])
    axes, keepdims = graph.constant(list(node.operation.axes)), int(node.operation.keepdims)
    largest = graph.node("ReduceMax", x, axes, keepdims=1)
    total = graph.node("ReduceSum", graph.node("Exp", graph.node("Sub", x, largest)), axes, keepdims=1)
    if node.operation.scale != 1:
        total = graph.node("Mul", total, graph.constant(node.operation.scale, node.dtype))
    result = graph.node("Add", graph.node("Log", total), largest)
    return result if keepdims else graph.node("Squeeze", result, axes)


@writes("nll_loss")
def nll_loss(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write −Σ t · log p / Σ t."""
    targets, prediction = graph.operands(node, names)
    product = graph.node("Mul", targets, graph.node("Log", prediction))
    total, weights = (graph.node("ReduceSum", name, keepdims=0) for name in (product, targets))
    return graph.node("Neg", graph.node("Div", total, weights))


unsupported(
    _ONLY_FORWARD,
    "conv2d_filter_gradient",
    "max_pool2d_gradient",
    "largest_pixels",
    "avg_pool2d_gradient",
    "adaptive_avg_pool2d_gradient",
    "resample_gradient",
    "nll_loss_gradient",
)
