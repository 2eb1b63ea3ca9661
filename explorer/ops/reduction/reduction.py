"""Reduction: base of operations that combine the elements along some axes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.examples import Example, real
from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.reduction.row_extremes import row_extremes

EXAMPLES = (
    Example(real(2, 3, 4), axes=(0, 2)),
    Example(real(2, 3), axes=(1,), keepdims=True),
    Example(real(3), axes=(0,)),
    Example(real(2, 3), axes=()),
)


_METHODS: dict[np.ufunc, str] = {np.maximum: "max", np.minimum: "min", np.logical_and: "all", np.logical_or: "any"}
"""methods of arrays that reduce as ufuncs do: GPUs' arrays know ``ufunc.reduce`` of sums and products alone"""


def reduce_array(
    ufunc: np.ufunc,
    x: Array,
    axes: tuple[int, ...],
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = None,
) -> Array:
    """Combine elements along axes by a ufunc, beginning with ``initial`` if it is given, on any device."""
    result: Array
    options: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    method = _METHODS.get(ufunc)
    if isinstance(x, np.ndarray) or method is None:
        if initial is not None:
            options["initial"] = initial
        if out is not None:
            reduce_rows = row_extremes(ufunc, x, axes, out, initial)
            if reduce_rows is not None:
                return reduce_rows()
            options |= {"out": out, "dtype": out.dtype}
        result = ufunc.reduce(x, **options)
        return result
    if x.size:
        result = getattr(x, method)(**options)
    else:
        kept = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        shape = kept if keepdims else [size for axis, size in enumerate(kept) if axis not in axes]
        result = np.empty(shape, x.dtype, like=x)
        result.fill(ufunc.identity if initial is None else initial)
    if initial is not None:
        result = ufunc(result, initial)
    if out is None:
        return result
    np.copyto(out, result)
    return out


class Reduction(Operation, abstract=True):
    """Base of operations that combine the elements along ``axes`` (counted from the front, ascending).

    Over empty axes a sum is 0, a product 1, ``all`` True and ``any`` False; extremes refuse, since there is none.
    (ONNX: ReduceSum and its like; PNNX: torch.sum and its like.)
    """

    axes: tuple[int, ...]
    keepdims: bool = False
    ufunc: ClassVar[np.ufunc]
    examples: ClassVar[tuple[Example, ...]] = EXAMPLES

    def result_shape(self, x: TensorType) -> Shape:
        """Return the shape without the reduced axes, or with size 1 there."""
        if any(not 0 <= axis < x.rank for axis in self.axes):
            raise self.refuse((x,), f"the axes {self.axes} must lie in 0 … {x.rank - 1}")
        if self.keepdims:
            return tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return tuple([size for axis, size in enumerate(x.shape) if axis not in self.axes])

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(self.result_shape(x), self.result_dtype(x.dtype), x.device)

    def result_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype of the result."""
        return dtype

    def kernel(self, out: Array, x: Array) -> Array:
        return reduce_array(self.ufunc, x, self.axes, out, self.keepdims)

    def bind_kernel(self, out: Array, x: Array) -> Callable[[], Any]:
        if type(self).kernel is not Reduction.kernel:
            return super().bind_kernel(out, x)
        return self._bound(out, x)

    def _bound(self, out: Array, x: Array) -> Callable[[], Any]:
        reduce_rows = row_extremes(self.ufunc, x, self.axes, out)
        if reduce_rows is not None:
            return reduce_rows
        reduce: Callable[..., Any] = self.ufunc.reduce
        return functools.partial(reduce, x, self.axes, out.dtype, out, self.keepdims)

    @property
    def reduced_axes(self) -> tuple[int, ...]:
        return self.axes

    @property
    def combine_ufunc(self) -> np.ufunc:
        return self.ufunc

    def partial_reduce(self, out: Array, x: Array, axes: tuple[int, ...]) -> Array:
        return reduce_array(self.ufunc, x, axes, out, keepdims=True)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return type(self)(tuple([axis + 1 for axis in self.axes]), self.keepdims)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return types[0].size

    def spread(self, value: Expr, x: Expr) -> Expr:
        """Repeat a value of the result's shape along the reduced axes."""
        kept = tuple([1 if axis in self.axes else size for axis, size in enumerate(x.shape)])
        return broadcast_to(reshape(value, kept), x.shape)
