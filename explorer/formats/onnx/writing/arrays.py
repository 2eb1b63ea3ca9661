"""Movement, reduction and products of whole arrays.

Shapes, ranges and counts are attributes in explorer, and inputs in ONNX. Where one depends on an unknown length of the
net's inputs it is written as a computation from that input's shape, and refused where it cannot be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.formats.onnx.writing.node_writer import WRITERS, GraphWriter, written
from explorer.ops.manipulation.slicing import index_of

_REDUCTIONS = {"sum": "ReduceSum", "mean": "ReduceMean", "prod": "ReduceProd", "max": "ReduceMax", "min": "ReduceMin"}


@written("reshape")
def reshape(graph: GraphWriter, node: Any, x: str) -> Any:
    """The elements in another shape; of an unknown length, the rest of the elements."""
    shape, other = node.shape, graph.counterpart(node).shape
    unknown = [axis for axis, pair in enumerate(zip(shape, other, strict=True)) if pair[0] != pair[1]]
    if len(unknown) == 1 and all(size for size in shape):
        (axis,) = unknown
        return graph.node("Reshape", x, graph.constant([-1 if at == axis else size for at, size in enumerate(shape)]))
    return graph.node("Reshape", x, graph.shape(node, shape, other), allowzero=int(0 in shape) or None)


@written("transpose")
def transpose(graph: GraphWriter, node: Any, x: str) -> Any:
    """The axes in another order."""
    return graph.node("Transpose", x, perm=list(node.operation.axes)) if node.shape else graph.node("Identity", x)


@written("broadcast_to")
def broadcast_to(graph: GraphWriter, node: Any, x: str) -> Any:
    """The elements repeated along axes; a length that the operand has already is left to it."""
    operand, counterpart = node.operands[0], graph.counterpart(node)
    known = [1] * (node.ndim - operand.ndim) + list(operand.shape)
    # Expand broadcasts both ways: 1 leaves a length as it is
    shape = [1 if have == size else size for have, size in zip(known, node.shape, strict=True)]
    others = [
        1 if have == size else other for have, size, other in zip(known, node.shape, counterpart.shape, strict=True)
    ]
    return graph.node("Expand", x, graph.shape(node, shape, others))


@written("to_device", "labels")
def identity(graph: GraphWriter, node: Any, x: str) -> Any:
    """The elements as they are."""
    return graph.node("Identity", x)


@written("slice")
def part(graph: GraphWriter, node: Any, x: str) -> Any:
    """Ranges and indices of axes."""
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
            length != other_length and not _agree(span, other, length, other_length)
        ):
            raise graph.depends(node, "a range whose ends are computed from unknown lengths")
        start, stop, step = (_from_end(*pair, length, other_length) for pair in zip(span, other, strict=True))
        starts.append(start)
        ends.append(stop if span[1] >= 0 else np.iinfo(np.int64).min)  # "through index 0"
        axes.append(axis)
        steps.append(step)
    if axes:
        x = graph.node("Slice", x, *[graph.constant(numbers) for numbers in (starts, ends, axes, steps)])
    if dropped:
        return graph.node("Squeeze", x, graph.constant(dropped))
    return x if axes else graph.node("Identity", x)


def _agree(span: Sequence[int], other: Sequence[int], length: int, other_length: int) -> bool:
    """Whether a range of an unknown length counts from the ends."""
    ends = all(a == b or a - length == b - other_length for a, b in zip(span[:2], other[:2], strict=True))
    return ends and span[2] == other[2]


def _from_end(place: int, other: int, length: int, other_length: int) -> int:
    """Return a place, counted from the end where it follows an unknown length; the end itself is the largest number."""
    if place == other:
        return place
    return place - length or np.iinfo(np.int64).max


@written("index0")
def member(graph: GraphWriter, node: Any, x: str) -> Any:
    """The part at one index of the first axis."""
    if node.operation.index != graph.counterpart(node).operation.index:
        raise graph.depends(node, "an index that is computed from unknown lengths")
    return graph.node("Gather", x, graph.constant(node.operation.index), axis=0)


@written("slice_scatter")
def slice_scatter(graph: GraphWriter, node: Any, x: str) -> Any:
    """Zeros with x at a part: the elements' places in the flattened result, scattered."""
    if node.shape != graph.counterpart(node).shape:
        raise graph.depends(node, "the length of a result that is computed from unknown ones")
    size = int(np.prod(node.shape))
    places = np.arange(size).reshape(node.shape)[index_of(node.operation.spans)].reshape(-1, 1)
    zeros = graph.node("Expand", graph.constant(0, node.dtype), graph.constant([size]))
    rows = graph.node("Reshape", x, graph.constant([-1] if places.size else [0]), allowzero=None if places.size else 1)
    whole = graph.node("ScatterND", zeros, graph.constant(places), rows)
    return graph.node("Reshape", whole, graph.constant(list(node.shape)), allowzero=int(0 in node.shape) or None)


@written("concatenate")
def concatenate(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Arrays one after the other along an axis."""
    return graph.node("Concat", *graph.operands(node, names), axis=node.operation.axis)


@written("stack")
def stack(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Arrays one after the other along a new first axis."""
    first = graph.constant([0])
    return graph.node("Concat", *[graph.node("Unsqueeze", name, first) for name in graph.operands(node, names)], axis=0)


@written("gather_stack")
def gather_stack(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Members of several values, one after the other along the first axis."""
    first = graph.constant([0])
    parts = [
        graph.node("Slice", names[at], graph.constant([start]), graph.constant([stop]), first)
        if start < stop
        else graph.node("Unsqueeze", names[at], first)
        for at, start, stop in node.operation.runs
    ]
    return graph.node("Concat", *parts, axis=0)


def _indices(graph: GraphWriter, node: Any, name: str) -> str:
    return graph.cast(name, node.dtype, node.dtype if node.dtype in (np.int32, np.int64) else np.int64)


@written("take")
def take(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Parts at indices along an axis."""
    numbers = _indices(graph, node.operands[1], names[1])
    return graph.node("Gather", names[0], numbers, axis=node.operation.axis)


@written("take_along")
def take_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Elements at indices along an axis, each at its own position on the others."""
    numbers = _indices(graph, node.operands[1], names[1])
    return graph.node("GatherElements", names[0], numbers, axis=node.operation.axis)


@written("put_along")
def put_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Elements replaced at indices along an axis."""
    numbers = _indices(graph, node.operands[1], names[1])
    return graph.node("ScatterElements", names[0], numbers, names[2], axis=node.operation.axis)


@written("take_along_gradient")
def add_along(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Elements added, in zeros, at indices along an axis."""
    numbers = _indices(graph, node.operands[1], names[1])
    return _added(graph, node, numbers, names[0])


@written("take_gradient")
def add_parts(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Parts added, in zeros, at indices along an axis."""
    axis, numbers = node.operation.axis, node.operands[1]
    parts = [*node.shape[:axis], numbers.size, *node.shape[axis + 1 :]]
    along = [1] * axis + [numbers.size] + [1] * (node.ndim - axis - 1)
    flat = graph.node("Reshape", _indices(graph, numbers, names[1]), graph.constant(along))
    everywhere = graph.node("Expand", flat, graph.constant(parts))
    return _added(graph, node, everywhere, graph.node("Reshape", names[0], graph.constant(parts)))


def _added(graph: GraphWriter, node: Any, numbers: str, values: str) -> Any:
    zero = graph.constant(0, node.dtype)
    zeros = graph.node("Expand", zero, graph.shape(node, node.shape, graph.counterpart(node).shape))
    return graph.node("ScatterElements", zeros, numbers, values, axis=node.operation.axis, reduction="add")


@written("unique_places")
def unique_places(graph: GraphWriter, node: Any, x: str) -> Any:
    """First places of different parts, the number of each part among them, and their counts."""
    operation = node.operation
    lists = graph.node("Unique", x, outputs=4, axis=operation.axis, sorted=int(operation.is_sorted))[1:]
    return graph.node("Concat", *lists, axis=0)


@written("one_hot")
def one_hot(graph: GraphWriter, node: Any, x: str) -> Any:
    """1 at the position of each class number, 0 elsewhere."""
    depth = graph.constant(node.operation.classes)
    return graph.node("OneHot", _indices(graph, node.operands[0], x), depth, graph.constant([0, 1], node.dtype))


@written("one_hot_vector", "literal", "random_uniform", "random_normal")
def elements(graph: GraphWriter, node: Any) -> Any:
    """A constant whose elements are known now."""
    if node.shape != graph.counterpart(node).shape:
        raise graph.depends(node, "the length of a constant that is computed from unknown ones")
    return graph.constant(node.operation.compute(), node.dtype)


@written("pad")
def pad(graph: GraphWriter, node: Any, x: str) -> Any:
    """A value before and after the elements of each axis."""
    widths = node.operation.widths
    if widths != graph.counterpart(node).operation.widths:
        raise graph.depends(node, "widths that are computed from unknown lengths")
    pads = graph.constant([before for before, _ in widths] + [after for _, after in widths])
    return graph.node("Pad", x, pads, graph.constant(node.operation.value, node.dtype), mode="constant")


@written(*_REDUCTIONS)
def reduction(graph: GraphWriter, node: Any, x: str) -> Any:
    """A sum, mean, product or extreme over axes."""
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


@written("all", "any")
def truth(graph: GraphWriter, node: Any, x: str) -> Any:
    """Whether all elements over axes hold, or any."""
    number = graph.cast(graph.cast(x, node.operands[0].dtype, np.bool_), np.bool_, np.int32)
    if node.operation.axes:
        type, axes = ("ReduceProd", "ReduceSum")[node.operation.name == "any"], list(node.operation.axes)
        number = graph.node(type, number, graph.constant(axes), keepdims=int(node.operation.keepdims))
    return graph.cast(number, np.int32, np.bool_)


@written("argmax", "argmin")
def position(graph: GraphWriter, node: Any, x: str) -> Any:
    """Position of an extreme element along an axis, the first of equal ones."""
    type = "ArgMax" if node.operation.name == "argmax" else "ArgMin"
    dtype = node.operands[0].dtype
    x = graph.cast(x, dtype, np.uint8 if dtype.kind == "b" else dtype)
    return graph.node(type, x, axis=node.operation.axis, keepdims=int(node.operation.keepdims))


@written("argsort")
def argsort(graph: GraphWriter, node: Any, x: str) -> Any:
    """Positions that sort the elements along an axis."""
    axis, dtype = node.operation.axis, node.operands[0].dtype
    x = graph.cast(x, dtype, np.uint8 if dtype.kind == "b" else dtype)
    if node.operation.count is None:
        length = graph.shape(node, [node.shape[axis]], [graph.counterpart(node).shape[axis]])
    else:
        length = graph.constant([node.operation.count])
    _, places = graph.node("TopK", x, length, outputs=2, axis=axis, largest=int(node.operation.descending), sorted=1)
    return places


@written("cumsum")
def cumulative_sum(graph: GraphWriter, node: Any, x: str) -> Any:
    """Each element with all before it along an axis."""
    return graph.node("CumSum", *graph.operands(node, [x]), graph.constant(node.operation.axis))


@written("matmul")
def matmul(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Product of matrices, of stacks of them, or with vectors."""
    return graph.node("MatMul", *graph.operands(node, names))


@written("accumulated_in")
def accumulated_in(graph: GraphWriter, node: Any, *names: str) -> Any:
    """An operation whose partial results are wider: on wider operands."""
    wide = node.operation.partial_dtype(node.dtype)
    operands = [Parameter(TensorType(each.shape, wide), "wide")() for each in node.operands]
    inner = node.operation.operation(*operands)
    cast = [graph.cast(name, each.dtype, wide) for name, each in zip(names, node.operands, strict=True)]
    return graph.cast(str(WRITERS[inner.operation.name](graph, inner, *cast)), wide, node.dtype)
