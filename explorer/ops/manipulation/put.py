"""Writing of elements at indices that are operands, the counterpart of ``take_along_axis``.

If an index occurs twice, ``put_along_axis`` keeps the last value in row-major order, and ``add_along_axis`` adds both.
(ONNX: ScatterElements, ScatterND; PNNX: torch.scatter, torch.scatter_add, Tensor.index_put.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.registry import public
from explorer.core.types.tensor_type import Array, TensorType, normalize_axis
from explorer.ops.base import broadcast_to
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import TakeAlong, TakeAlongGradient, flat_indices, flat_indices_bytes
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import Movement
from explorer.ops.manipulation.slicing import part_of

__all__ = ["add_along_axis", "put_along_axis"]


class PutAlong(Movement):
    """x with elements replaced at indices along one axis; along the other axes, an index refers to its own position."""

    name = "put_along"
    axis: int
    linear = False
    examples = (
        Example(real(3, 4), integers(3, 2, high=4), real(3, 2), axis=1),
        Example(real(3, 4), integers(5, 4, low=-3, high=3), real(5, 4), axis=0),
    )

    def infer(self, x: TensorType, indices: TensorType, values: TensorType) -> TensorType:
        others = [type_.shape[: self.axis] + type_.shape[self.axis + 1 :] for type_ in (x, indices)]
        if not 0 <= self.axis < x.rank == indices.rank or indices.dtype.kind not in "iu" or others[0] != others[1]:
            raise self.refuse(
                (x, indices, values), f"indices must be integers with the shape of x, except along axis {self.axis}"
            )
        if values.shape != indices.shape or values.dtype != x.dtype:
            raise self.refuse((x, indices, values), "there must be one value for each index, with the dtype of x")
        return x

    def kernel(self, out: Array, x: Array, indices: Array, values: Array) -> Array:
        # flat indices, because GPU arrays support writing with only one index
        flat = flat_indices(indices, x.shape, self.axis)
        result = out if out.flags.c_contiguous else np.empty(x.shape, x.dtype, like=x)
        np.copyto(result, x)
        result.reshape(-1)[flat] = values.reshape(-1)
        return result

    def workspace(self, x: TensorType, indices: TensorType, values: TensorType) -> int:
        return flat_indices_bytes(indices)

    def gradient(self, g: Expr, y: Expr, x: Expr, indices: Expr, values: Expr) -> tuple[Expr, None, Expr]:
        kept = self(g, indices, zeros(values.shape, g.dtype))
        # a value that was overwritten by a later one has no gradient
        claim_constant("the order of the values", values.size)
        order = tensor(np.arange(1, values.size + 1).reshape(values.shape), device=x.device)
        last = TakeAlong(self.axis)(self(zeros(x.shape, np.int64), indices, order), indices)
        return kept, None, where(last == order, TakeAlong(self.axis)(g, indices), 0)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        result = [
            x if is_batched else broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip(operands, batched, strict=True)
        ]
        return PutAlong(self.axis + 1)(*result)


@public
def put_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Expr:
    """Replace elements of ``x`` at ``indices`` along ``axis``.

    Along the other axes, each index refers to its own position; ``indices`` may be shorter than ``x`` along these axes.
    ``values`` is one number or has the indices' shape. Negative indices count from the end. If an index occurs twice,
    the last value is kept. (ONNX: ScatterElements; PNNX: torch.scatter.)

    >>> ex.evaluate(ex.put_along_axis(np.zeros((2, 3)), np.array([[1], [2]]), 5.0, 1))
    array([[0., 5., 0.],
           [0., 0., 5.]])
    """
    x, indices, values, normalized = _checked("put_along_axis", x, indices, values, axis)
    rows = (*indices.shape[:normalized], x.shape[normalized], *indices.shape[normalized + 1 :])
    y = PutAlong(normalized)(part_of(x, tuple(map(slice, rows))), indices, values)
    for axis in reversed(range(x.ndim)):
        # append the elements of x beyond the indices
        if rows[axis] < x.shape[axis]:
            rest = part_of(x, (*map(slice, rows[:axis]), slice(rows[axis], None)))
            y = concatenate([y, rest], axis)
    return y


@public
def add_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Expr:
    """Add ``values`` to elements of ``x`` at ``indices`` along ``axis``.

    The operands are the same as in ``put_along_axis``. If an index occurs twice, both values are added. (ONNX:
    ScatterElements with reduction add; PNNX: torch.scatter_add.)

    >>> ex.evaluate(ex.add_along_axis(np.ones((2, 3)), np.array([[1, 1], [2, 0]]), 5.0, 1))
    array([[ 1., 11.,  1.],
           [ 6.,  1.,  6.]])
    """
    x, indices, values, normalized = _checked("add_along_axis", x, indices, values, axis)
    added = TakeAlongGradient(normalized, x.shape[normalized])(values, indices)
    total: Expr = x + padded(added, tuple([(0, size - own) for size, own in zip(x.shape, added.shape, strict=True)]))
    return total


_KIND_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""rank of each dtype kind; a kind can represent the numbers of kinds with lower ranks"""


def _converted(values: Any, dtype: np.dtype[Any]) -> Any:
    """Convert plain ``values`` to ``dtype`` if it can represent them, otherwise to an array of their own dtype."""
    array = np.asarray(values)
    rank = _KIND_RANKS.get(dtype.kind, 2)
    if _KIND_RANKS.get(array.dtype.kind, len(_KIND_RANKS)) > rank:
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    return cast if rank > 1 or np.array_equal(cast, array) else array


def _checked(name: str, x: Any, indices: Any, values: Any, axis: int) -> tuple[Expr, Expr, Expr, int]:
    """Return x, indices, values with the indices' shape, and the axis; raise OperandError if shapes do not match."""
    x, indices = as_operands((x, np.asarray(indices) if type(indices) is int else indices))
    normalized = normalize_axis(axis, x.ndim, name)
    fits = indices.ndim == x.ndim and all(
        own <= size for i, (own, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != normalized
    )
    if not fits or indices.dtype.kind not in "iu":
        raise OperandError(
            f"{name} of {x.type} with indices {indices.type}",
            rule=f"indices must be integers with {x.ndim} axes, none longer than in x except axis {normalized}",
            fix="ex.cast(indices, np.int64), or ex.broadcast_to(indices, …)",
        )
    (values,) = as_operands((values if isinstance(values, Expr) else _converted(values, x.dtype),))
    if values.dtype != x.dtype or values.shape not in ((), indices.shape):
        raise OperandError(
            f"{name} of {x.type} with indices {indices.type} and values {values.type}",
            rule="values must have the dtype of x, and must be one number or one per index",
            fix="ex.cast(values, x.dtype), or ex.broadcast_to(values, indices.shape)",
        )
    return x, indices, broadcast_to(values, indices.shape) if values.shape != indices.shape else values, normalized
