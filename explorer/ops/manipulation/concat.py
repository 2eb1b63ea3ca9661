"""Joining of tensors: stacking along a new axis and concatenation along an existing one.

The batching pass uses ``GatherStack`` to collect elements of several batches into one operand, copying each element
only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands, record
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import Array, TensorType, normalize_axis
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.reshape import Movement, Transpose, flatten
from explorer.ops.manipulation.slicing import Index0, Slice, SliceScatter

__all__ = ["concatenate", "stack"]


class Stack(Movement):
    """Stack of tensors of equal shape along a new first axis."""

    accepts_strings = True
    examples = (Example(real(2, 3), real(2, 3)), Example(real(), real(), real()))

    def infer(self, *types: TensorType) -> TensorType:
        if not types or any(type_.shape != types[0].shape for type_ in types):
            raise self.refuse(types[:4], "there must be at least one operand, and all must have the same shape")
        # fast path: batches stack thousands of operands of one type
        dtype = types[0].dtype if len(set(types)) == 1 else np.result_type(*[type_.dtype for type_ in types])
        return TensorType((len(types), *types[0].shape), dtype)

    def kernel(self, out: Array, *members: Array) -> Array:
        if out.ndim > 1 and out.flags.c_contiguous:  # np.stack takes three times as long
            np.concatenate(members, out=out.reshape(out.shape[0] * out.shape[1], *out.shape[2:]))
            return out
        return np.stack(members, out=out)

    def gradient(self, g: Expr, y: Expr, *members: Expr) -> tuple[Expr, ...]:
        return tuple([Index0(index)(g) for index in range(len(members))])

    def batch(self, size: int, batched: tuple[bool, ...], *members: Expr) -> Expr:
        batched_members = [
            node if is_batched else broadcast_to(node, (size, *node.shape))
            for node, is_batched in zip(members, batched, strict=True)
        ]
        stacked = self(*batched_members)
        return Transpose((1, 0, *range(2, stacked.ndim)))(stacked)


class GatherStack(Movement):
    """Stack of elements of batched operands, and of single tensors, along a new first axis.

    ``runs`` contains tuples (operand, start, stop) in the order of the result. A run contains the elements start … stop
    − 1 of the operand; start = stop means that the whole operand is one element.

    The batching pass records this operation with ``of`` if a batch reads elements of earlier batches' results. Slices
    and a Stack would need a node and a copy for each element, whereas a run is copied at once.
    """

    runs: tuple[tuple[int, int, int], ...]
    accepts_strings = True
    examples = (
        Example(real(3, 2), real(2), real(2, 2), runs=((0, 1, 3), (1, 0, 0), (2, 1, 2), (0, 0, 1))),
        Example(real(4), real(), runs=((1, 0, 0), (0, 2, 4))),
    )

    def infer(self, *types: TensorType) -> TensorType:
        if {operand for operand, _, _ in self.runs} != {*range(len(types))}:
            raise self.refuse(types[:4], f"the runs {self.runs} must refer to each operand")
        shapes = set()
        for operand, start, stop in self.runs:
            shape = types[operand].shape
            if start < stop and (not shape or stop > shape[0]):
                raise self.refuse(types[:4], f"operand {operand} must have elements {start} to {stop - 1}")
            shapes.add(shape[1:] if start < stop else shape)
        if len(shapes) != 1 or len({type_.dtype for type_ in types}) != 1:
            raise self.refuse(types[:4], "all elements must have the same shape and dtype")
        return types[0].with_shape((self.count, *shapes.pop()))

    def kernel(self, out: Array, *values: Array) -> Array:
        parts = [values[at][start:stop] if start < stop else values[at][np.newaxis] for at, start, stop in self.runs]
        np.concatenate(parts, out=out)
        return out

    def gradient(self, g: Expr, y: Expr, *values: Expr) -> tuple[Expr, ...]:
        terms_of: list[list[Expr]] = [[] for _ in values]
        member = [(0, size, 1) for size in y.shape[1:]]
        position = 0
        for at, start, stop in self.runs:
            if start < stop:
                piece = Slice(((position, position + stop - start, 1), *member))(g)
                terms_of[at].append(SliceScatter(((start, stop, 1), *member), values[at].shape)(piece))
            else:
                terms_of[at].append(Index0(position)(g))
            position += max(1, stop - start)
        return tuple([terms[0] if len(terms) == 1 else add_n(*terms) for terms in terms_of])

    def batch(self, size: int, batched: tuple[bool, ...], *values: Expr) -> Expr:
        # runs index the first axis, so the batch axis is moved to axis 1, and back to the front in the result
        sliced = {at for at, start, stop in self.runs if start < stop}
        transposed = []
        for at, (value, is_batched) in enumerate(zip(values, batched, strict=True)):
            expanded = value if is_batched else broadcast_to(value, (size, *value.shape))
            transposed.append(Transpose((1, 0, *range(2, expanded.ndim)))(expanded) if at in sliced else expanded)
        gathered = self(*transposed)
        return Transpose((1, 0, *range(2, gathered.ndim)))(gathered)

    @property
    def count(self) -> int:
        """Number of stacked elements."""
        return sum([max(1, stop - start) for _, start, stop in self.runs])

    @classmethod
    def of(cls, members: Sequence[tuple[Expr, int | None]]) -> Expr:
        """Record a stack of elements (value, index); the index None means the whole value.

        Consecutive elements of a value form one run.
        """
        indices: dict[int, int] = {}
        operands: list[Expr] = []
        runs: list[tuple[int, int, int]] = []
        for value, index in members:
            at = indices.get(value.uid)
            if at is None:
                at = indices[value.uid] = len(operands)
                operands.append(value)
            if index is None:
                runs.append((at, 0, 0))
            # extend the current run if the element follows its last one; runs with start = stop are whole operands
            elif runs and runs[-1][0] == at and runs[-1][2] == index > runs[-1][1]:
                runs[-1] = at, runs[-1][1], index + 1
            else:
                runs.append((at, index, index + 1))
        return record(cls(tuple(runs)), tuple(operands))


class Concatenate(Movement):
    """Concatenation of tensors along an axis."""

    axis: int
    accepts_strings = True
    examples = (Example(real(2, 3), real(4, 3), axis=0), Example(real(2, 3), real(2, 1), axis=1))

    def infer(self, *types: TensorType) -> TensorType:
        first = types[0].shape if types else ()
        rest = [type_.shape[: self.axis] + type_.shape[self.axis + 1 :] for type_ in types]
        if (
            not types
            or not 0 <= self.axis < len(first)
            or any(len(k.shape) != len(first) for k in types)
            or len(set(rest)) > 1
        ):
            raise self.refuse(types, f"shapes must be equal except for axis {self.axis}")
        length = sum(type_.shape[self.axis] for type_ in types)
        shape = (*first[: self.axis], length, *first[self.axis + 1 :])
        return TensorType(shape, np.result_type(*[type_.dtype for type_ in types]))

    def kernel(self, out: Array, *parts: Array) -> Array:
        return np.concatenate(parts, axis=self.axis, out=out)

    def gradient(self, g: Expr, y: Expr, *parts: Expr) -> tuple[Expr, ...]:
        gradients, start = [], 0
        for part in parts:
            stop = start + part.shape[self.axis]
            spans: list[Any] = [(0, size, 1) for size in g.shape]
            spans[self.axis] = (start, stop, 1)
            gradients.append(Slice(tuple(spans))(g))
            start = stop
        return tuple(gradients)

    def batch(self, size: int, batched: tuple[bool, ...], *parts: Expr) -> Expr:
        batched_members = [
            node if is_batched else broadcast_to(node, (size, *node.shape))
            for node, is_batched in zip(parts, batched, strict=True)
        ]
        return Concatenate(self.axis + 1)(*batched_members)


@public
def stack(arrays: Any, axis: int = 0) -> Expr:
    """Stack tensors of equal shape along a new axis: n tensors (…) → (n, …) for axis 0.

    >>> ex.stack([np.ones(3), np.ones(3)], axis=1).shape
    (3, 2)
    """
    stacked = Stack()(*_several(arrays, "stack"))
    position = normalize_axis(axis, stacked.ndim, "stack")
    if position == 0:
        return stacked
    return Transpose((*range(1, position + 1), 0, *range(position + 1, stacked.ndim)))(stacked)


@public
def concatenate(arrays: Any, axis: int | None = 0) -> Expr:
    """Concatenate tensors along an existing axis; if ``axis`` is None, the tensors are flattened first.

    Dtypes are promoted as in NumPy. Raises OperandError if the shapes differ along another axis. (ONNX: Concat; PNNX:
    torch.cat.)

    >>> ex.concatenate((np.ones((2, 3)), np.ones((1, 3)))).shape
    (3, 3)
    """
    operands = as_operands(_several(arrays, "concatenate"))
    if axis is None:
        operands, axis = tuple([flatten(operand) for operand in operands]), 0
    return Concatenate(normalize_axis(axis, operands[0].ndim, "concatenate"))(*operands)


def _several(arrays: Any, operation: str) -> tuple[Any, ...]:
    if not isinstance(arrays, (tuple, list)) or not arrays:
        raise OperandError(
            f"{operation} of {arrays!r}",
            rule="the operands must be a list or tuple with at least one element",
            fix=f"ex.{operation}([a, b])",
        )
    return tuple(arrays)
