"""ONNX translations of torch functions that torch's exporter rejects or translates wrongly.

The exporter translates scatter_reduce wrongly for means and for ``include_self=False``. It rejects stable sorts, masked
selection, products, distances, k-th elements, medians, and searches in sorted boundaries.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_SCATTERED = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
"""ONNX's names of reductions, by torch's names"""


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return the translations, keyed by torch overload."""
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
    """Return ONNX's operators of opset 18, in which torch's exporter writes a model before upgrading it."""
    return import_module("onnxscript").opset18


def constant(array: Any) -> Any:
    """Create a constant of the exported program from ``array``."""
    helper = import_module("onnx.numpy_helper")
    return operators().Constant(value=helper.from_array(np.asarray(array)))


def _limit(x: Any, largest: bool) -> Any:
    """Create a constant with the largest or smallest value of the dtype of ``x``."""
    dtype = x.dtype.numpy()
    if dtype.kind == "f":
        return constant(np.array(np.inf if largest else -np.inf, dtype))
    ends = np.iinfo(dtype)
    return constant(np.array(ends.max if largest else ends.min, dtype))


def _scatter_reduce(self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """Translate scatter_reduce; ``include_self`` includes the original element in each reduction."""
    op, is_scalar = operators(), len(self.shape) == 0
    if is_scalar:
        self, index, src = (op.Reshape(each, constant([-1])) for each in (self, index, src))
    shape = op.Shape(index)
    # torch ignores the elements of the source beyond the shape of the indices
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
        ones = op.Expand(one, shape)
        counts = op.Expand(one if include_self else zero, op.Shape(self))
        counts = op.ScatterElements(counts, index, ones, axis=dim, reduction="add")
        result = _quotient(result, op.Max(counts, one), self)
    return op.Reshape(result, constant(np.zeros(0, np.int64))) if is_scalar else result


def _scatter(self: Any, dim: int, index: Any, src: Any) -> Any:
    return _scattered(self, dim, index, src, "none")


def _scatter_add(self: Any, dim: int, index: Any, src: Any) -> Any:
    return _scattered(self, dim, index, src, "add")


def _scattered(self: Any, dim: int, index: Any, src: Any, reduction: str) -> Any:
    """Translate a scatter with a reduction; elements of ``src`` beyond the shape of ``index`` are ignored."""
    op = operators()
    if len(self.shape) == 0:
        vector = constant([-1])
        operands = [op.Reshape(each, vector) for each in (self, index, src)]
        return op.Reshape(op.ScatterElements(*operands, axis=0, reduction=reduction), op.Shape(self))
    shape = op.Shape(index)
    src = op.Slice(src, op.Sub(shape, shape), shape)
    return op.ScatterElements(self, index, src, axis=dim, reduction=reduction)


def _quotient(x: Any, count: Any, like: Any) -> Any:
    """Divide the sum ``x`` by ``count``; quotients of integers are rounded down."""
    op = operators()
    if like.dtype.numpy().kind == "f":
        return op.Div(x, count)
    quotient = op.Div(x, count)
    one = op.CastLike(constant(1), like)
    is_rounded_up = op.Less(x, op.Mul(quotient, count))
    return op.Where(is_rounded_up, op.Sub(quotient, one), quotient)


def _sort(self: Any, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    """Translate sort; every sort is stable, because ONNX's TopK is."""
    op = operators()
    if len(self.shape) == 0:
        return op.Identity(self), constant(np.int64(0))
    return op.TopK(self, _length(self, dim), axis=dim, largest=int(descending), sorted=1)


def _length(x: Any, dim: int) -> Any:
    op = operators()
    return op.Gather(op.Shape(x), constant([dim % len(x.shape)]), axis=0)


def _masked_select(self: Any, mask: Any) -> Any:
    op, vector = operators(), constant([-1])
    broadcast = op.Where(mask, self, self)
    return op.Compress(op.Reshape(broadcast, vector), op.Reshape(op.Expand(mask, op.Shape(broadcast)), vector))


def _product(inp: Any, dims: Any, *, output_dtype: Any = None) -> Any:
    op = operators()
    if dims is None:
        return op.ReduceProd(inp, keepdims=0)
    return op.ReduceProd(inp, constant(np.array(dims, np.int64)), keepdims=0) if len(dims) else op.Identity(inp)


def _running_product(self: Any, dim: int, dtype: int | None = None) -> Any:
    """Translate cumprod in log₂(length) steps, each of which doubles the number of factors in every product.

    torch's exporter would write one multiplication for each pair of elements.
    """
    op, shape, is_integer = operators(), [int(length) for length in self.shape], self.dtype.numpy().kind in "biu"
    if dtype not in (None, -1) or is_integer:
        self = op.Cast(self, to=7 if dtype in (None, -1) else dtype)
    axis, one, reach = dim % max(len(shape), 1), op.CastLike(constant(np.int64(1)), self), 1
    while shape and reach < shape[axis]:
        earlier = op.Slice(self, constant([0]), constant([-reach]), constant([axis]))
        before = op.Expand(one, constant([*shape[:axis], reach, *shape[axis + 1 :]]))
        self, reach = op.Mul(self, op.Concat(before, earlier, axis=axis)), 2 * reach
    return self if reach > 1 else op.Identity(self)


def _distances(x1: Any, x2: Any, p: float, compute_mode: int | None = None) -> Any:
    """Translate cdist, the p-norms of the differences between all pairs of rows."""
    op = operators()
    difference = op.Abs(op.Sub(op.Unsqueeze(x1, constant([-2])), op.Unsqueeze(x2, constant([-3]))))
    last = constant([-1])
    if p == 0:
        return op.ReduceSum(op.CastLike(op.Cast(difference, to=9), x1), last, keepdims=0)
    if p == 1:
        return op.ReduceSum(difference, last, keepdims=0)
    if p == 2:
        return op.Sqrt(op.ReduceSum(op.Mul(difference, difference), last, keepdims=0))
    if p == float("inf"):
        return op.ReduceMax(difference, last, keepdims=0)
    power = op.CastLike(constant(np.float32(p)), x1)
    inverse = op.CastLike(constant(np.float32(1 / p)), x1)
    return op.Pow(op.ReduceSum(op.Pow(difference, power), last, keepdims=0), inverse)


def _kth(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    op = operators()
    if len(self.shape) == 0:
        return op.Identity(self), constant(np.int64(0))
    ordered = op.TopK(self, constant([k]), axis=dim, largest=0, sorted=1)
    last = constant([k - 1])
    parts = [op.Gather(each, last, axis=dim) for each in ordered]
    return tuple(parts if keepdim else [op.Squeeze(part, constant([dim])) for part in parts])


def _median(self: Any, dim: int, keepdim: bool = False) -> Any:
    """Translate median along an axis; return the medians and their indices.

    The median is the lower of two middle elements, or the first NaN if there is one.
    """
    op = operators()
    if len(self.shape) == 0 or self.dtype.numpy().kind != "f":
        return _kth(self, (int(self.shape[dim]) + 1) // 2 if len(self.shape) else 1, dim, keepdim)
    _, middle = _kth(self, (int(self.shape[dim]) + 1) // 2, dim, True)
    is_nan = op.Cast(op.IsNaN(self), to=6)
    has_nan = op.Cast(op.ReduceMax(is_nan, constant([dim]), keepdims=1), to=9)
    index = op.Where(has_nan, op.ArgMax(is_nan, axis=dim, keepdims=1), middle)
    element = op.GatherElements(self, index, axis=dim)
    return (element, index) if keepdim else tuple(op.Squeeze(part, constant([dim])) for part in (element, index))


def _median_of_all(self: Any) -> Any:
    """Translate median of all elements: the lower of two middle elements, or NaN if there is one."""
    op, size = operators(), int(np.prod([int(length) for length in self.shape]))
    middle = (size + 1) // 2
    vector = op.Reshape(self, constant([-1]))
    ordered, _ = op.TopK(vector, constant([middle]), axis=0, largest=0, sorted=1)
    element = op.Gather(ordered, constant(middle - 1), axis=0)
    if self.dtype.numpy().kind != "f":
        return element
    has_nan = op.Cast(op.ReduceMax(op.Cast(op.IsNaN(vector), to=6), keepdims=0), to=9)
    return op.Where(has_nan, op.CastLike(constant(np.float32(np.nan)), self), element)


def _hypotenuse(self: Any, other: Any) -> Any:
    """Translate hypot without overflow of the squares."""
    op, infinite = operators(), _limit(self, True)
    self, other = op.Abs(self), op.Abs(other)
    high, low = op.Max(self, other), op.Min(self, other)
    one = op.CastLike(constant(1), self)
    # dividing by 0 or ∞ would give NaN
    ratio = op.Div(low, op.Where(op.Or(op.Equal(high, op.Sub(one, one)), op.Equal(high, infinite)), one, high))
    return op.Mul(high, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))


def _leaky(self: Any, noise: Any, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Any:
    """Translate rrelu in evaluation mode, where the slope is the mean of ``lower`` and ``upper``."""
    return operators().LeakyRelu(self, alpha=(lower + upper) / 2), operators().Identity(noise)


def _bucketize(self: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Translate bucketize: count the boundaries below each element, or up to it if ``right`` is True."""
    op = operators()
    element = op.Unsqueeze(self, constant([-1]))
    # The comparison is negated so that all boundaries count as below NaN.
    is_below = op.Not(op.Less(element, boundaries) if right else op.LessOrEqual(element, boundaries))
    return op.ReduceSum(op.Cast(is_below, to=6 if out_int32 else 7), constant([-1]), keepdims=0)


def _searchsorted(
    sorted_sequence: Any,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    op = operators()
    if sorter is not None:
        sorted_sequence = op.GatherElements(sorted_sequence, sorter, axis=-1)
    right = right or side == "right"
    if len(sorted_sequence.shape) == 1:
        return _bucketize(self, sorted_sequence, out_int32=out_int32, right=right)
    return _bucketize(self, op.Unsqueeze(sorted_sequence, constant([-2])), out_int32=out_int32, right=right)
