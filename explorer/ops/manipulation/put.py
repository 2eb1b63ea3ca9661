"""Elements written at indices that are themselves operands: the counterparts of ``take_along_axis``.

Where an index occurs twice, the last element that is written there stays, row-major; ``add_along_axis`` adds them all.
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
from explorer.ops.manipulation.gather import TakeAlong, TakeAlongGradient, flat_places, flat_places_bytes
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import Movement
from explorer.ops.manipulation.slicing import part_of

__all__ = ["add_along_axis", "put_along_axis"]


class PutAlong(Movement):
    """x with elements replaced along one axis: each index says where, at its own position on the other axes."""

    name = "put_along"
    axis: int
    linear = False
    examples = (
        Example(real(3, 4), integers(3, 2, high=4), real(3, 2), axis=1),
        Example(real(3, 4), integers(5, 4, low=-3, high=3), real(5, 4), axis=0),
    )

    def infer(self, x: TensorType, numbers: TensorType, values: TensorType) -> TensorType:
        others = [type_.shape[: self.axis] + type_.shape[self.axis + 1 :] for type_ in (x, numbers)]
        if not 0 <= self.axis < x.rank == numbers.rank or numbers.dtype.kind not in "iu" or others[0] != others[1]:
            raise self.refuse(
                (x, numbers, values), f"indices must be integers of the shape of x, except for axis {self.axis}"
            )
        if values.shape != numbers.shape or values.dtype != x.dtype:
            raise self.refuse((x, numbers, values), "there must be a value for each index, of the dtype of x")
        return x

    def kernel(self, out: Array, x: Array, numbers: Array, values: Array) -> Array:
        # one index into the memory, since a GPU writes at one index alone
        flat = flat_places(numbers, x.shape, self.axis)
        whole = out if out.flags.c_contiguous else np.empty(x.shape, x.dtype, like=x)
        np.copyto(whole, x)
        whole.reshape(-1)[flat] = values.reshape(-1)
        return whole

    def workspace(self, x: TensorType, numbers: TensorType, values: TensorType) -> int:
        return flat_places_bytes(numbers)

    def gradient(self, g: Expr, y: Expr, x: Expr, numbers: Expr, values: Expr) -> tuple[Expr, None, Expr]:
        kept = self(g, numbers, zeros(values.shape, g.dtype))
        # an element that another one has replaced has no part in the result
        claim_constant("the order of the values", values.size)
        order = tensor(np.arange(1, values.size + 1).reshape(values.shape), device=x.device)
        last = TakeAlong(self.axis)(self(zeros(x.shape, np.int64), numbers, order), numbers)
        return kept, None, where(last == order, TakeAlong(self.axis)(g, numbers), 0)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        whole = [
            x if is_batched else broadcast_to(x, (size, *x.shape))
            for x, is_batched in zip(operands, batched, strict=True)
        ]
        return PutAlong(self.axis + 1)(*whole)


@public
def put_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Expr:
    """Replace elements of ``x`` along ``axis``: each index says where, at its own position on the other axes.

    ``indices`` may have fewer rows along the other axes than ``x``, whose first rows are meant then; ``values`` have
    their shape, or are one number. Negative indices count from the end. Where an index occurs twice, the last value
    stays. (ONNX: ScatterElements; PNNX: torch.scatter.)

    >>> ex.evaluate(ex.put_along_axis(np.zeros((2, 3)), np.array([[1], [2]]), 5.0, 1))
    array([[0., 5., 0.],
           [0., 0., 5.]])
    """
    x, indices, values, place = _checked("put_along_axis", x, indices, values, axis)
    rows = (*indices.shape[:place], x.shape[place], *indices.shape[place + 1 :])
    y = PutAlong(place)(part_of(x, tuple(map(slice, rows))), indices, values)
    for axis in reversed(range(x.ndim)):
        # the rows of x behind those that were meant, joined axis by axis
        if rows[axis] < x.shape[axis]:
            rest = part_of(x, (*map(slice, rows[:axis]), slice(rows[axis], None)))
            y = concatenate([y, rest], axis)
    return y


@public
def add_along_axis(x: Any, indices: Any, values: Any, axis: int) -> Expr:
    """Add values to elements of ``x`` along ``axis``: each index says where, at its own position on the other axes.

    What ``put_along_axis`` is told of its operands holds here. Where an index occurs twice, both values are added.
    (ONNX: ScatterElements with reduction add; PNNX: torch.scatter_add.)

    >>> ex.evaluate(ex.add_along_axis(np.ones((2, 3)), np.array([[1, 1], [2, 0]]), 5.0, 1))
    array([[ 1., 11.,  1.],
           [ 6.,  1.,  6.]])
    """
    x, indices, values, place = _checked("add_along_axis", x, indices, values, axis)
    added = TakeAlongGradient(place, x.shape[place])(values, indices)
    total: Expr = x + padded(added, tuple([(0, size - own) for size, own in zip(x.shape, added.shape, strict=True)]))
    return total


_KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
"""kinds of dtypes, of which each holds the numbers of those before"""


def _converted(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return plain values in a dtype, where it holds them; else as they are."""
    array = np.asarray(values)
    wanted = _KINDS.get(dtype.kind, 2)
    if _KINDS.get(array.dtype.kind, len(_KINDS)) > wanted:
        return array
    with np.errstate(over="ignore"):
        cast = array.astype(dtype)
    return cast if wanted > 1 or np.array_equal(cast, array) else array


def _checked(name: str, x: Any, indices: Any, values: Any, axis: int) -> tuple[Expr, Expr, Expr, int]:
    """Return the operands, values of the shape of the indices, and the axis; raises OperandError for what misfits."""
    x, indices = as_operands((x, np.asarray(indices) if type(indices) is int else indices))
    place = normalize_axis(axis, x.ndim, name)
    fits = indices.ndim == x.ndim and all(
        own <= size for i, (own, size) in enumerate(zip(indices.shape, x.shape, strict=True)) if i != place
    )
    if not fits or indices.dtype.kind not in "iu":
        raise OperandError(
            f"{name} of {x.type} with indices {indices.type}",
            rule=f"indices must be integers with as many axes as x, and no more rows than x except along axis {place}",
            fix="ex.cast(indices, np.int64), or ex.broadcast_to(indices, …)",
        )
    (values,) = as_operands((values if isinstance(values, Expr) else _converted(values, x.dtype),))
    if values.dtype != x.dtype or values.shape not in ((), indices.shape):
        raise OperandError(
            f"{name} of {x.type} with indices {indices.type} and values {values.type}",
            rule="values must be of the dtype of x, and one number or one for each index",
            fix="ex.cast(values, x.dtype), or ex.broadcast_to(values, indices.shape)",
        )
    return x, indices, broadcast_to(values, indices.shape) if values.shape != indices.shape else values, place
