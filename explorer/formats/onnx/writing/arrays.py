"""Writers of operations that move, reduce and multiply arrays.

Shapes, ranges and counts are attributes in explorer and inputs in ONNX. If such a value depends on an unknown length,
nodes are written that compute it from the shapes of the net's inputs; if that is impossible, the operation is rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.formats.onnx.writing.node_writer import WRITERS, GraphWriter, writes
from explorer.ops.manipulation.slicing import index_of

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


@writes("reshape")
def reshape(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a reshape; an axis of unknown length is inferred from the other axes."""
    shape, other = node.shape, graph.counterpart(node).shape
    unknown = [axis for axis, pair in enumerate(zip(shape, other, strict=True)) if pair[0] != pair[1]]
    if len(unknown) == 1 and all(size for size in shape):
        (axis,) = unknown
        return graph.node("Reshape", x, graph.constant([-1 if at == axis else size for at, size in enumerate(shape)]))
    return graph.node("Reshape", x, graph.shape(node, shape, other), allowzero=int(0 in shape) or None)


@writes("transpose")
def transpose(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a permutation of axes."""
    return graph.node("Transpose", x, perm=list(node.operation.axes)) if node.shape else graph.node("Identity", x)


@writes("broadcast_to")
def broadcast_to(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a broadcast."""
    operand, counterpart = node.operands[0], graph.counterpart(node)
    known = [1] * (node.ndim - operand.ndim) + list(operand.shape)
    # Expand broadcasts in both directions, so a length of 1 keeps the length of the operand.
    shape = [1 if own == size else size for own, size in zip(known, node.shape, strict=True)]
    others = [
        1 if own == size else other for own, size, other in zip(known, node.shape, counterpart.shape, strict=True)
    ]
    return graph.node("Expand", x, graph.shape(node, shape, others))


@writes("to_device", "labels")
def identity(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a copy of the operand."""
    return graph.node("Identity", x)


@writes("slice")
def slice_(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write slices and indices of axes."""
    operand, counterpart = node.operands[0], graph.counterpart(node)
    spans, others = node.operation.spans, counterpart.operation.spans
    starts, ends, axes, steps, dropped = [], [], [], [], []
    for axis, (span, other) in enumerate(zip(spans, others, strict=True)):
        length, other_length = operand.shape[axis], counterpart.operands[0].shape[axis]
        if isinstance(span, int):
            dropped.append(axis)
            span, other = (span, span + 1, 1), (other, other + 1, 1)
        if span == (0, length, 1) and other == (0, other_length, 1):
            continue
        if (length == other_length and span != other) or (
            length != other_length and not _counts_from_ends(span, other, length, other_length)
        ):
            raise graph.dependency_error(node, "a range whose ends are computed from unknown lengths")
        start, stop, step = (_from_end(*pair, length, other_length) for pair in zip(span, other, strict=True))
        starts.append(start)
        ends.append(stop if span[1] >= 0 else np.iinfo(np.int64).min)  # so that index 0 is included
        axes.append(axis)
        steps.append(step)
    if axes:
        x = graph.node("Slice", x, *[graph.constant(indices) for indices in (starts, ends, axes, steps)])
    if dropped:
        return graph.node("Squeeze", x, graph.constant(dropped))
    return x if axes else graph.node("Identity", x)


def _counts_from_ends(span: Sequence[int], other: Sequence[int], length: int, other_length: int) -> bool:
    """Return whether both bounds of a range are fixed or count from the end of an axis of unknown length."""
    ends = all(a == b or a - length == b - other_length for a, b in zip(span[:2], other[:2], strict=True))
    return ends and span[2] == other[2]


def _from_end(index: int, other: int, length: int, other_length: int) -> int:
    """Return an index, counted from the end if it depends on an unknown length."""
    if index == other:
        return index
    return index - length or np.iinfo(np.int64).max


@writes("index0")
def index0(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the slice at one index of the first axis."""
    if node.operation.index != graph.counterpart(node).operation.index:
        raise graph.dependency_error(node, "an index that is computed from unknown lengths")
    return graph.node("Gather", x, graph.constant(node.operation.index), axis=0)


@writes("slice_scatter")
def slice_scatter(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write zeros with x at a slice, by scattering x to flat positions of the result."""
    if node.shape != graph.counterpart(node).shape:
        raise graph.dependency_error(node, "the length of a result, which is computed from unknown lengths")
    size = int(np.prod(node.shape))
    indices = np.arange(size).reshape(node.shape)[index_of(node.operation.spans)].reshape(-1, 1)
    zeros = graph.node("Expand", graph.constant(0, node.dtype), graph.constant([size]))
    rows = graph.node(
        "Reshape", x, graph.constant([-1] if indices.size else [0]), allowzero=None if indices.size else 1
    )
    whole = graph.node("ScatterND", zeros, graph.constant(indices), rows)
    return graph.node("Reshape", whole, graph.constant(list(node.shape)), allowzero=int(0 in node.shape) or None)


@writes("concatenate")
def concatenate(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the concatenation of arrays along an axis."""
    return graph.node("Concat", *graph.operands(node, names), axis=node.operation.axis)


@writes("stack")
def stack(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the stack of arrays along a new first axis."""
    first = graph.constant([0])
    return graph.node("Concat", *[graph.node("Unsqueeze", name, first) for name in graph.operands(node, names)], axis=0)


@writes("gather_stack")
def gather_stack(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the concatenation of ranges of several values along the first axis."""
    first = graph.constant([0])
    slices = [
        graph.node("Slice", names[at], graph.constant([start]), graph.constant([stop]), first)
        if start < stop
        else graph.node("Unsqueeze", names[at], first)
        for at, start, stop in node.operation.runs
    ]
    return graph.node("Concat", *slices, axis=0)


def _indices(graph: GraphWriter, node: Any, name: str) -> str:
    return graph.cast(name, node.dtype, node.dtype if node.dtype in (np.int32, np.int64) else np.int64)


@writes("take")
def take(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the slices at indices along an axis."""
    indices = _indices(graph, node.operands[1], names[1])
    return graph.node("Gather", names[0], indices, axis=node.operation.axis)


@writes("take_along")
def take_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the elements at indices along an axis."""
    indices = _indices(graph, node.operands[1], names[1])
    return graph.node("GatherElements", names[0], indices, axis=node.operation.axis)


@writes("put_along")
def put_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the replacement of elements at indices along an axis."""
    indices = _indices(graph, node.operands[1], names[1])
    return graph.node("ScatterElements", names[0], indices, names[2], axis=node.operation.axis)


@writes("take_along_gradient")
def add_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the scatter-add of elements into zeros along an axis."""
    indices = _indices(graph, node.operands[1], names[1])
    return _scatter_add(graph, node, indices, names[0])


@writes("take_gradient")
def add_slices(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write the scatter-add of slices into zeros along an axis."""
    axis, indices = node.operation.axis, node.operands[1]
    shape = [*node.shape[:axis], indices.size, *node.shape[axis + 1 :]]
    along = [1] * axis + [indices.size] + [1] * (node.ndim - axis - 1)
    flat = graph.node("Reshape", _indices(graph, indices, names[1]), graph.constant(along))
    expanded = graph.node("Expand", flat, graph.constant(shape))
    return _scatter_add(graph, node, expanded, graph.node("Reshape", names[0], graph.constant(shape)))


def _scatter_add(graph: GraphWriter, node: Any, indices: str, values: str) -> Any:
    zero = graph.constant(0, node.dtype)
    zeros = graph.node("Expand", zero, graph.shape(node, node.shape, graph.counterpart(node).shape))
    return graph.node("ScatterElements", zeros, indices, values, axis=node.operation.axis, reduction="add")


@writes("unique_indices")
def unique_indices(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write first indices, inverse indices and counts of distinct slices."""
    operation = node.operation
    lists = graph.node("Unique", x, outputs=4, axis=operation.axis, sorted=int(operation.is_sorted))[1:]
    return graph.node("Concat", *lists, axis=0)


@writes("one_hot")
def one_hot(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write 1 at the position of each class, and 0 elsewhere."""
    depth = graph.constant(node.operation.classes)
    return graph.node("OneHot", _indices(graph, node.operands[0], x), depth, graph.constant([0, 1], node.dtype))


@writes("one_hot_vector", "literal", "random_uniform", "random_normal")
def elements(graph: GraphWriter, node: Any) -> Any:
    """Write a constant whose elements are known."""
    if node.shape != graph.counterpart(node).shape:
        raise graph.dependency_error(node, "the length of a constant, which is computed from unknown lengths")
    return graph.constant(node.operation.compute(), node.dtype)


@writes("pad")
def pad(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write padding with a value before and after each axis."""
    widths = node.operation.widths
    if widths != graph.counterpart(node).operation.widths:
        raise graph.dependency_error(node, "widths that are computed from unknown lengths")
    pads = graph.constant([before for before, _ in widths] + [after for _, after in widths])
    return graph.node("Pad", x, pads, graph.constant(node.operation.value, node.dtype), mode="constant")


@writes(*_REDUCTIONS)
def reduction(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write a sum, mean, product, maximum or minimum over axes."""
    operand = node.operands[0]
    if operand.dtype.kind == "b" and node.dtype.kind == "b":
        number = graph.cast(x, np.bool_, np.uint8)
        return graph.cast(_reduced(graph, node, number), np.uint8, np.bool_)
    return _reduced(graph, node, *graph.operands(node, [x]))


def _reduced(graph: GraphWriter, node: Any, x: str) -> Any:
    if not node.operation.axes:
        return graph.node("Identity", x)
    type, axes = _REDUCTIONS[node.operation.name], graph.constant(list(node.operation.axes))
    return graph.node(type, x, axes, keepdims=int(node.operation.keepdims))


@writes("all", "any")
def all_or_any(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write whether all elements, or any elements, along the axes are true."""
    number = graph.cast(graph.cast(x, node.operands[0].dtype, np.bool_), np.bool_, np.int32)
    if node.operation.axes:
        type, axes = ("ReduceProd", "ReduceSum")[node.operation.name == "any"], list(node.operation.axes)
        number = graph.node(type, number, graph.constant(axes), keepdims=int(node.operation.keepdims))
    return graph.cast(number, np.int32, np.bool_)


@writes("argmax", "argmin")
def position(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the index of the first largest or smallest element along an axis."""
    type = "ArgMax" if node.operation.name == "argmax" else "ArgMin"
    dtype = node.operands[0].dtype
    x = graph.cast(x, dtype, np.uint8 if dtype.kind == "b" else dtype)
    return graph.node(type, x, axis=node.operation.axis, keepdims=int(node.operation.keepdims))


@writes("argsort")
def argsort(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the indices that sort the elements along an axis."""
    axis, dtype = node.operation.axis, node.operands[0].dtype
    x = graph.cast(x, dtype, np.uint8 if dtype.kind == "b" else dtype)
    if node.operation.count is None:
        length = graph.shape(node, [node.shape[axis]], [graph.counterpart(node).shape[axis]])
    else:
        length = graph.constant([node.operation.count])
    _, indices = graph.node("TopK", x, length, outputs=2, axis=axis, largest=int(node.operation.descending), sorted=1)
    return indices


@writes("cumsum")
def cumulative_sum(graph: GraphWriter, node: Any, x: str) -> Any:
    """Write the cumulative sum along an axis."""
    return graph.node("CumSum", *graph.operands(node, [x]), graph.constant(node.operation.axis))


@writes("matmul")
def matmul(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a product of vectors, matrices, or stacks of matrices."""
    return graph.node("MatMul", *graph.operands(node, names))


@writes("accumulated_in")
def accumulated_in(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write an operation with a wider accumulator by casting its operands to the wider dtype."""
    wide = node.operation.partial_dtype(node.dtype)
    operands = [Parameter(TensorType(each.shape, wide), "wide")() for each in node.operands]
    inner = node.operation.operation(*operands)
    cast = [graph.cast(name, each.dtype, wide) for name, each in zip(names, node.operands, strict=True)]
    return graph.cast(str(WRITERS[inner.operation.name](graph, inner, *cast)), wide, node.dtype)
