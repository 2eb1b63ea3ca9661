"""Operators that change shapes and axes, and select, join or split parts.

As in torch, a size of −1 is inferred, and negative axes count from the end. Sizes that pnnx writes as expressions
(``size(@0,1)``) are evaluated before a builder is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import promoted
from explorer.net.operators.signature import Ints, Names
from explorer.ops.base import broadcast_to
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import expand_dims, reshape, squeeze, transpose

_NO_INDEX = 2**31 - 1
"""placeholder for the index of an axis that has a range"""


@file_operator("Tensor.reshape", "Tensor.view", "torch.reshape")
def reshape_(input: Expr, shape: Ints) -> Expr:
    """Return ``input`` with the shape ``shape``."""
    return reshape(input, shape)


@file_operator("aten::ravel")
def ravel(input: Expr) -> Expr:
    """Flatten ``input`` to one axis."""
    return reshape(input, (input.size,))


@file_operator("Tensor.expand", "torch.expand", "aten::broadcast_to", "torch.broadcast_to", "Tensor.broadcast_to")
def expand(input: Expr, shape: Annotated[Ints, Names("sizes", "size", "shape")]) -> Expr:
    """Broadcast ``input`` to ``shape``, in which −1 keeps the length of an axis."""
    extra = len(shape) - input.ndim
    # new axes come first, so axis i of the input is axis i + extra of the result
    kept = [input.shape[axis - extra] if size == -1 and axis >= extra else size for axis, size in enumerate(shape)]
    return broadcast_to(input, tuple(kept))


@file_operator("Tensor.permute", "torch.permute")
def permute(input: Expr, dims: Ints) -> Expr:
    """Return ``input`` with its axes in the order ``dims``."""
    return transpose(input, dims)


@file_operator("aten::view_as", "Tensor.view_as", "aten::reshape_as", "Tensor.reshape_as")
def view_as(input: Expr, other: Expr) -> Expr:
    """Return ``input`` with the shape of ``other``."""
    return reshape(input, other.shape)


@file_operator("aten::numpy_T", "Tensor.T", "torch.t", "Tensor.t")
def reversed_axes(input: Expr) -> Expr:
    """Reverse the order of the axes."""
    return input.T


@file_operator("aten::mT")
def matrix_transpose(input: Expr) -> Expr:
    """Transpose the matrices along the last two axes."""
    if input.ndim < 2:
        raise OperandError(f"an operand {input.type}", rule="the operand must have at least two axes")
    return transpose(input, (*range(input.ndim - 2), input.ndim - 1, input.ndim - 2))


@file_operator("aten::mH", "aten::adjoint")
def adjoint(input: Expr) -> Expr:
    """Transpose real matrices along the last two axes; raise OperandError if the matrices are complex."""
    if input.dtype.kind == "c":
        raise OperandError(f"an operand {input.type}", rule="the operand must be real")
    return matrix_transpose(input)


@file_operator("torch.transpose", "Tensor.transpose")
def transpose_(input: Expr, dim0: int, dim1: int) -> Expr:
    """Exchange the axes ``dim0`` and ``dim1``."""
    first, second = (normalize_axis(axis, input.ndim, "transpose") for axis in (dim0, dim1))
    axes = [*range(input.ndim)]
    axes[first], axes[second] = second, first
    return transpose(input, tuple(axes))


@file_operator("torch.unsqueeze", "Tensor.unsqueeze")
def unsqueeze(input: Expr, dim: int) -> Expr:
    """Insert an axis of length 1 at the index ``dim``."""
    return expand_dims(input, dim)


@file_operator("torch.squeeze", "Tensor.squeeze")
def squeeze_(input: Expr, dim: Ints | None = None) -> Expr:
    """Remove axes of length 1; like torch, ignore given axes of any other length."""
    if dim is None:
        return squeeze(input)
    axes = [normalize_axis(axis, input.ndim, "squeeze") for axis in dim]
    return squeeze(input, tuple([axis for axis in axes if input.shape[axis] == 1]))


@file_operator("Tensor.select", "torch.select")
def select(input: Expr, dim: int, index: int) -> Expr:
    """Return the slice at ``index`` along the axis ``dim``."""
    return input[(*[slice(None)] * normalize_axis(dim, input.ndim, "select"), index)]


@file_operator("torch.narrow", "Tensor.narrow", "aten::narrow")
def narrow(input: Expr, dim: int, start: int, length: int) -> Expr:
    """Return the ``length`` slices from ``start`` along the axis ``dim``; a negative ``start`` counts from the end."""
    axis = normalize_axis(dim, input.ndim, "narrow")
    size = input.shape[axis]
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise OperandError(
            f"start={start}, length={length} along an axis of size {size}", rule="the range must be within the axis"
        )
    return input[(*[slice(None)] * axis, slice(first, first + length))]


@dataclass(frozen=True)
class Part:
    """Range or index of one axis, or ranges and indices of several axes. Range ends are clamped to the axis."""

    dim: int = 0
    start: int | None = None
    end: int | None = None
    step: int = 1
    select: int | None = None
    dims: Ints | None = None
    starts: Ints = ()
    ends: Ints = ()
    steps: Ints = ()
    selects: Ints = ()

    def index(self, x: Expr) -> tuple[Any, ...]:
        """Return the NumPy index of this part of ``x``; raise OperandError if the ranges do not match the axes."""
        if self.dims is None:
            axis = normalize_axis(self.dim, x.ndim, "slice")
            # files with an index also contain an empty range, start=0 end=0 step=0
            item = slice(self.start, self.end, self.step) if self.select is None else self.select
            return (*[slice(None)] * axis, item)
        axes = [normalize_axis(axis, x.ndim, "slice") for axis in self.dims]
        ranges = self.starts, self.ends, self.steps, self.selects
        if len({*axes}) != len(axes) or any(len(each) != len(axes) for each in ranges):
            raise OperandError(
                f"dims={tuple(axes)}, starts, ends, steps, selects={ranges}",
                rule="axes must be unique, and each must have one start, end, step and index",
            )
        items: list[Any] = [slice(None)] * x.ndim
        for axis, start, end, step, index in zip(axes, *ranges, strict=True):
            items[axis] = slice(start, end, step) if index == _NO_INDEX else index
        return tuple(items)


@file_operator("Tensor.slice", "torch.slice")
def slice_(input: Expr, *, part: Part) -> Expr:
    """Return the part of ``input`` that is selected by a range or an index for each axis."""
    return input[part.index(input)]


@file_operator("torch.cat", "torch.concat")
def cat(*tensors: Expr, dim: int = 0) -> Expr:
    """Concatenate tensors along the axis ``dim``."""
    return concatenate(promoted(tensors), dim)


@file_operator("torch.stack")
def stack_(*tensors: Expr, dim: int = 0) -> Expr:
    """Stack tensors along the new axis ``dim``."""
    return stack(promoted(tensors), dim)


@file_operator("torch.split", "Tensor.split")
def split(
    input: Expr, split_size: Annotated[int | Ints, Names("split_size_or_sections", "split_size")], dim: int = 0
) -> tuple[Expr, ...]:
    """Split the axis ``dim`` into parts with the lengths ``split_size``.

    An integer is the length of all parts; the last part may be shorter.
    """
    axis = normalize_axis(dim, input.ndim, "split")
    sizes = _steps(input.shape[axis], split_size) if isinstance(split_size, int) else [*split_size]
    return _parts(input, axis, sizes)


@file_operator("torch.chunk", "Tensor.chunk", "aten::unsafe_chunk")
def chunk(input: Expr, chunks: int, dim: int = 0) -> tuple[Expr, ...]:
    """Split the axis ``dim`` into ``chunks`` parts of equal length; the last part may be shorter."""
    axis = normalize_axis(dim, input.ndim, "chunk")
    if chunks < 1:
        raise OperandError(f"chunks={chunks}", rule="chunks must be at least 1")
    return _parts(input, axis, _steps(input.shape[axis], max(1, -(-input.shape[axis] // chunks))))


def _steps(length: int, step: int) -> list[int]:
    if step < 1:
        raise OperandError(f"parts of size {step}", rule="a part must have a size of 1 or more")
    claim_steps("split", -(-length // step))
    return [length - start if start + step > length else step for start in range(0, length, step)]


def _parts(x: Expr, axis: int, sizes: list[int]) -> tuple[Expr, ...]:
    parts, start = [], 0
    if min(sizes, default=0) < 0:
        raise OperandError(f"parts of sizes {sizes[:8]}", rule="a part must have a size of 0 or more")
    for size in sizes:
        parts.append(x[(*[slice(None)] * axis, slice(start, start + size))])
        start += size
    if start != x.shape[axis]:
        raise OperandError(f"parts of sizes {sizes} of {x.type}", rule=f"the sizes must add up to {x.shape[axis]}")
    return tuple(parts)
