"""Functions of torch that its exporter refuses, or writes as something else, by operators of ONNX.

The exporter writes means of scattered elements as sums of other ones, and scattered elements without those that they
fall on as if these counted. It has no operator for stable sorts, chosen elements, products, distances, k-th elements,
medians and places among boundaries.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_SCATTERED = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""torch's word of a reduction → ONNX's"""


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return for each of these functions the function that writes it."""
    aten, prims = torch.ops.aten, torch.ops.prims
    return {
        aten.scatter_reduce.two: _scatter_reduce,
        aten.scatter.src: _scatter,
        aten.scatter_add.default: _scatter_add,
        aten.sort.stable: _sort,
        aten.masked_select.default: _masked_select,
        prims.prod.default: _product,
        aten.cumprod.default: _running_product,
        aten._cdist_forward.default: _distances,
        aten.kthvalue.default: _kth,
        aten.median.dim: _median,
        aten.median.default: _median_of_all,
        aten.bucketize.Tensor: _bucketize,
        aten.searchsorted.Tensor: _searchsorted,
        prims.hypot.default: _hypotenuse,
        aten.rrelu_with_noise_functional.default: _leaky,
    }


def operators() -> Any:
    """Return ONNX's operators, of the opset that torch's exporter writes before it upgrades."""
    return import_module("onnxscript").opset18


def constant(array: Any) -> Any:
    """Return an array as a constant of the program that is written."""
    helper = import_module("onnx.numpy_helper")
    return operators().Constant(value=helper.from_array(np.asarray(array)))


def _limit(x: Any, largest: bool) -> Any:
    """Return the element that no other of its dtype is beyond."""
    dtype = x.dtype.numpy()
    if dtype.kind == "f":
        return constant(np.array(np.inf if largest else -np.inf, dtype))
    ends = np.iinfo(dtype)
    return constant(np.array(ends.max if largest else ends.min, dtype))


def _scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """Write elements reduced at the places where they fall, with those that are there or without."""
    op, is_scalar = operators(), len(self.shape) == 0
    if is_scalar:
        self, index, src = (op.Reshape(each, constant([-1])) for each in (self, index, src))
    shape = op.Shape(index)
    # torch reads of the source as much as there are places
    src = op.Slice(src, op.Sub(shape, shape), shape)
    one = op.CastLike(constant(1), self)
    zero = op.Sub(one, one)
    start = self
    if not include_self:
        neutral = {"prod": lambda: one, "amax": lambda: _limit(self, False), "amin": lambda: _limit(self, True)}
        first = op.Expand(neutral.get(reduce, lambda: zero)(), shape)
        start = op.ScatterElements(self, index, first, axis=dim)
    result = op.ScatterElements(start, index, src, axis=dim, reduction=_SCATTERED[reduce])
    if reduce == "mean":
        ones, whole = op.Expand(one, shape), op.Shape(self)
        counts = op.Expand(one if include_self else zero, whole)
        counts = op.ScatterElements(counts, index, ones, axis=dim, reduction="add")
        result = _quotient(result, op.Max(counts, one), self)
    return op.Reshape(result, constant(np.zeros(0, np.int64))) if is_scalar else result


def _scatter(self: Any, dim: int, index: Any, src: Any) -> Any:
    """Write elements replaced at the places where they fall."""
    return _scattered(self, dim, index, src, "none")


def _scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    """Write elements added at the places where they fall."""
    return _scattered(self, dim, index, src, "add")


def _scattered(self: Any, dim: int, index: Any, src: Any, reduction: str) -> Any:
    """Write a scatter; torch reads of the source as much as there are places."""
    op = operators()
    if len(self.shape) == 0:
        line = constant([-1])
        parts = [op.Reshape(each, line) for each in (self, index, src)]
        return op.Reshape(op.ScatterElements(*parts, axis=0, reduction=reduction), op.Shape(self))
    shape = op.Shape(index)
    src = op.Slice(src, op.Sub(shape, shape), shape)
    return op.ScatterElements(self, index, src, axis=dim, reduction=reduction)


def _quotient(x: Any, count: Any, like: Any) -> Any:
    """Write a mean; that of whole numbers is rounded down."""
    op = operators()
    if like.dtype.numpy().kind == "f":
        return op.Div(x, count)
    whole = op.Div(x, count)
    one = op.CastLike(constant(1), like)
    below = op.Less(x, op.Mul(whole, count))
    return op.Where(below, op.Sub(whole, one), whole)


def _sort(self: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Write a sort; ONNX's keeps the order of equal elements."""
    op = operators()
    if len(self.shape) == 0:
        return op.Identity(self), constant(np.int64(0))
    return op.TopK(self, _length(self, dim), axis=dim, largest=int(descending), sorted=1)


def _length(x: Any, dim: int) -> Any:
    op = operators()
    return op.Gather(op.Shape(x), constant([dim % len(x.shape)]), axis=0)


def _masked_select(self: Any, mask: Any) -> Any:
    """Write the elements where a mask holds, in their order; both are broadcast."""
    op, line = operators(), constant([-1])
    together = op.Where(mask, self, self)
    return op.Compress(op.Reshape(together, line), op.Reshape(op.Expand(mask, op.Shape(together)), line))


def _product(inp: Any, dims: Any, *, output_dtype: Any = None) -> Any:
    """Write products along axes."""
    op = operators()
    if dims is None:
        return op.ReduceProd(inp, keepdims=0)
    return op.ReduceProd(inp, constant(np.array(dims, np.int64)), keepdims=0) if len(dims) else op.Identity(inp)


def _running_product(self: Any, dim: int, dtype: int | None = None) -> Any:
    """Write the product of each element and all before it along an axis, in as many steps as its length has digits.

    After a step each element is the product of twice as many; torch's exporter writes a product for each pair of them.
    """
    op, shape, is_whole = operators(), [int(length) for length in self.shape], self.dtype.numpy().kind in "biu"
    if dtype not in (None, -1) or is_whole:
        self = op.Cast(self, to=7 if dtype in (None, -1) else dtype)
    axis, one, reach = dim % max(len(shape), 1), op.CastLike(constant(np.int64(1)), self), 1
    while shape and reach < shape[axis]:
        earlier = op.Slice(self, constant([0]), constant([-reach]), constant([axis]))
        before = op.Expand(one, constant([*shape[:axis], reach, *shape[axis + 1 :]]))
        self, reach = op.Mul(self, op.Concat(before, earlier, axis=axis)), 2 * reach
    return self if reach > 1 else op.Identity(self)


def _distances(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:
    """Write the p-norms of the differences of all rows of one matrix and all rows of another."""
    op = operators()
    size = op.Abs(op.Sub(op.Unsqueeze(x1, constant([-2])), op.Unsqueeze(x2, constant([-3]))))
    last = constant([-1])
    if p == 0:
        return op.ReduceSum(op.CastLike(op.Cast(size, to=9), x1), last, keepdims=0)
    if p == 1:
        return op.ReduceSum(size, last, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(size, size), last, keepdims=0))
    if p == float("inf"):
        return op.ReduceMax(size, last, keepdims=0)
    power = op.CastLike(constant(np.float32(p)), x1)
    inverse = op.CastLike(constant(np.float32(1 / p)), x1)
    return op.Pow(op.ReduceSum(op.Pow(size, power), last, keepdims=0), inverse)


def _kth(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Write the k-th smallest elements along an axis, and their places."""
    op = operators()
    if len(self.shape) == 0:
        return op.Identity(self), constant(np.int64(0))
    ordered = op.TopK(self, constant([k]), axis=dim, largest=0, sorted=1)
    last = constant([k - 1])
    parts = [op.Gather(each, last, axis=dim) for each in ordered]
    kept = parts if keepdim else [op.Squeeze(part, constant([dim])) for part in parts]
    return tuple(kept)


def _median(self: Any, dim: int, keepdim: bool = False) -> Any:
    """Write the lower of the two middle elements along an axis, or the first NaN if there is one, and its place."""
    op = operators()
    if len(self.shape) == 0 or self.dtype.numpy().kind != "f":
        return _kth(self, (int(self.shape[dim]) + 1) // 2 if len(self.shape) else 1, dim, keepdim)
    _, middle = _kth(self, (int(self.shape[dim]) + 1) // 2, dim, True)
    is_nan = op.Cast(op.IsNaN(self), to=6)
    has_nan = op.Cast(op.ReduceMax(is_nan, constant([dim]), keepdims=1), to=9)
    place = op.Where(has_nan, op.ArgMax(is_nan, axis=dim, keepdims=1), middle)
    element = op.GatherElements(self, place, axis=dim)
    return (element, place) if keepdim else tuple(op.Squeeze(part, constant([dim])) for part in (element, place))


def _median_of_all(self: Any) -> Any:
    """Write the lower of the two middle elements, or NaN if there is one."""
    op, size = operators(), int(np.prod([int(length) for length in self.shape]))
    middle = (size + 1) // 2
    line = op.Reshape(self, constant([-1]))
    ordered, _ = op.TopK(line, constant([middle]), axis=0, largest=0, sorted=1)
    element = op.Gather(ordered, constant(middle - 1), axis=0)
    if self.dtype.numpy().kind != "f":
        return element
    has_nan = op.Cast(op.ReduceMax(op.Cast(op.IsNaN(line), to=6), keepdims=0), to=9)
    return op.Where(has_nan, op.CastLike(constant(np.float32(np.nan)), self), element)


def _hypotenuse(self: Any, other: Any) -> Any:
    """Write the lengths of vectors of two elements, whose squares may be beyond the dtype."""
    op, infinite = operators(), _limit(self, True)
    self, other = op.Abs(self), op.Abs(other)
    high, low = op.Max(self, other), op.Min(self, other)
    one = op.CastLike(constant(1), self)
    # 0 and ∞ are over nothing
    ratio = op.Div(low, op.Where(op.Or(op.Equal(high, op.Sub(one, one)), op.Equal(high, infinite)), one, high))
    return op.Mul(high, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))


def _leaky(self: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """Write a rectifier with random slopes, which are their mean outside training."""
    return operators().LeakyRelu(self, alpha=(lower + upper) / 2), operators().Identity(noise)


def _bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Write the numbers of boundaries below elements; with ``right``, of those that are not above them; all for NaN."""
    op = operators()
    element = op.Unsqueeze(self, constant([-1]))
    # the negation, since NaN lies behind all boundaries
    below = op.Not(op.Less(element, boundaries) if right else op.LessOrEqual(element, boundaries))
    return op.ReduceSum(op.Cast(below, to=6 if out_int32 else 7), constant([-1]), keepdims=0)


def _searchsorted(
    sorted_sequence: Any,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Write places of elements among those of sorted rows."""
    op = operators()
    if sorter is not None:
        sorted_sequence = op.GatherElements(sorted_sequence, sorter, axis=-1)
    right = right or side == "right"
    if len(sorted_sequence.shape) == 1:
        return _bucketize(self, sorted_sequence, out_int32=out_int32, right=right)
    return _bucketize(self, op.Unsqueeze(sorted_sequence, constant([-2])), out_int32=out_int32, right=right)
