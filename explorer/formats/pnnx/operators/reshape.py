"""Functions and methods of tensors: shapes, axes, parts, comparisons.

Sizes are torch's: −1 stands for the size that is left, and negative axes count from the end. What pnnx writes as an
expression (``size(@0,1)``) is evaluated before a builder sees it.
"""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_steps
from explorer.core.registry import function
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.pnnx.operators.base.arguments import integer, integers, value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import modular, promoted, real
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import broadcast_to
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.reshape import expand_dims, reshape, squeeze, transpose
from explorer.ops.nn.activation import Clip, clip

_NO_INDEX = 2**31 - 1
"""what stands where an axis has a range and no index"""


@file_operator("Tensor.reshape", "Tensor.view", "torch.reshape")
def reshape_(op: OperatorContext) -> Expr:
    """The same elements in another shape."""
    return reshape(op.x, op.integers("shape"))


@file_operator("aten::ravel")
def ravel(op: OperatorContext) -> Expr:
    """All elements along one axis."""
    return reshape(op.x, (op.x.size,))


@file_operator("Tensor.expand", "torch.expand", "aten::broadcast_to", "torch.broadcast_to", "Tensor.broadcast_to")
def expand(op: OperatorContext) -> Expr:
    """Axes of size 1 repeated; −1 keeps a size."""
    name = next((name for name in ("sizes", "size", "shape") if op.has(name)), "shape")
    x, sizes = op.x, integers(op, 1, name)
    extra = len(sizes) - x.ndim
    # new axes are in front: an axis of x is `extra` places further back in the result
    kept = [x.shape[axis - extra] if size == -1 and axis >= extra else size for axis, size in enumerate(sizes)]
    return broadcast_to(x, tuple(kept))


@file_operator("Tensor.permute", "torch.permute")
def permute(op: OperatorContext) -> Expr:
    """The axes in another order."""
    return transpose(op.x, op.integers("dims"))


@file_operator("aten::view_as", "Tensor.view_as", "aten::reshape_as", "Tensor.reshape_as")
def view_as(op: OperatorContext) -> Expr:
    """The same elements in the shape of another tensor."""
    return reshape(op.x, op.tensor(1, "other").shape)


@file_operator("aten::numpy_T", "Tensor.T")
def reversed_axes(op: OperatorContext) -> Expr:
    """The axes in reverse order."""
    return op.x.T


@file_operator("torch.transpose", "Tensor.transpose")
def transpose_(op: OperatorContext) -> Expr:
    """Two axes exchanged."""
    x = op.x
    first, second = (normalize_axis(op.integer(name), x.ndim, "transpose") for name in ("dim0", "dim1"))
    axes = [*range(x.ndim)]
    axes[first], axes[second] = second, first
    return transpose(x, tuple(axes))


@file_operator("torch.t", "Tensor.t")
def matrix_transpose(op: OperatorContext) -> Expr:
    """A matrix with rows for columns."""
    return op.x.T


@file_operator("torch.unsqueeze", "Tensor.unsqueeze")
def unsqueeze(op: OperatorContext) -> Expr:
    """A new axis of size 1."""
    return expand_dims(op.x, op.integer("dim"))


@file_operator("torch.squeeze", "Tensor.squeeze")
def squeeze_(op: OperatorContext) -> Expr:
    """Axes of size 1 dropped; as torch has it, those of another size are kept."""
    x = op.x
    if op.argument("dim", None) is None:
        return squeeze(x)
    axes = [normalize_axis(axis, x.ndim, "squeeze") for axis in op.integers("dim")]
    return squeeze(x, tuple([axis for axis in axes if x.shape[axis] == 1]))


@file_operator("Tensor.select", "torch.select")
def select(op: OperatorContext) -> Expr:
    """The part at one index of an axis."""
    x = op.x
    axis = normalize_axis(op.integer("dim"), x.ndim, "select")
    return x[(*[slice(None)] * axis, op.integer("index"))]


@file_operator("torch.narrow", "Tensor.narrow", "aten::narrow")
def narrow(op: OperatorContext) -> Expr:
    """So many parts of an axis from a start, which counts from the end where it is negative."""
    x = op.x
    axis = normalize_axis(integer(op, 1, "dim"), x.ndim, "narrow")
    start, length, size = integer(op, 2, "start"), integer(op, 3, "length"), x.shape[axis]
    first = start + size if start < 0 else start
    if not 0 <= first <= first + length <= size:
        raise OperandError(
            f"start={start}, length={length} along {size} parts",
            rule=f"{op.definition.type}: the range must lie within the axis",
        )
    return x[(*[slice(None)] * axis, slice(first, first + length))]


@file_operator("Tensor.slice", "torch.slice")
def slice_(op: OperatorContext) -> Expr:
    """Ranges of axes, or the parts at one index of each; an end beyond the axis is its end."""
    return op.x[part(op, op.x)]


def part(op: OperatorContext, x: Expr) -> tuple[Any, ...]:
    """Return the index of the part of x that an operator's ranges name."""
    if not op.has("dims"):
        axis = normalize_axis(op.integer("dim", 0), x.ndim, "slice")
        start, end = (None if op.argument(name, None) is None else op.integer(name) for name in ("start", "end"))
        step = op.integer("step", 1)
        # beside an index stands an empty range, start=0 end=0 step=0
        index = None if op.argument("select", None) is None else op.integer("select")
        return (*[slice(None)] * axis, slice(start, end, step) if index is None else index)
    axes = [normalize_axis(axis, x.ndim, "slice") for axis in op.integers("dims")]
    ranges = [op.integers(name) for name in ("starts", "ends", "steps", "selects")]
    if len({*axes}) != len(axes) or any(len(each) != len(axes) for each in ranges):
        raise OperandError(
            f"dims={tuple(axes)}, starts, ends, steps, selects={tuple(ranges)}",
            rule=f"{op.definition.type}: each axis must be there once, with one start, end, step and index",
        )
    items: list[Any] = [slice(None)] * x.ndim
    for axis, start, end, step, index in zip(axes, *ranges, strict=True):
        items[axis] = slice(start, end, step) if index == _NO_INDEX else index
    return tuple(items)


@file_operator("torch.cat", "torch.concat")
def cat(op: OperatorContext) -> Expr:
    """Tensors joined along an axis."""
    return concatenate(promoted(op.tensors()), op.integer("dim", 0))


@file_operator("torch.stack")
def stack_(op: OperatorContext) -> Expr:
    """Tensors as the members of a new axis."""
    return stack(promoted(op.tensors()), op.integer("dim", 0))


@file_operator("torch.split", "Tensor.split")
def split(op: OperatorContext) -> tuple[Expr, ...]:
    """Parts of given sizes along an axis; one number is the size of all but the last."""
    x = op.x
    axis = normalize_axis(op.integer("dim", 0), x.ndim, "split")
    name = "split_size_or_sections" if op.has("split_size_or_sections") else "split_size"
    lengths = op.argument(name)
    several = isinstance(lengths, tuple)
    sizes = [*op.integers(name)] if several else _steps(x.shape[axis], op.integer(name))
    return _parts(x, axis, sizes)


@file_operator("torch.chunk", "Tensor.chunk")
def chunk(op: OperatorContext) -> tuple[Expr, ...]:
    """An axis in so many parts of equal size, the last one smaller."""
    return chunked(op.x, op.integer("chunks"), op.integer("dim", 0))


def chunked(x: Expr, count: int, dim: int) -> tuple[Expr, ...]:
    """Return an axis in so many parts; raises OperandError for less than one."""
    axis = normalize_axis(dim, x.ndim, "chunk")
    if count < 1:
        raise OperandError(f"chunks={count}", rule="torch.chunk must make at least one part")
    return _parts(x, axis, _steps(x.shape[axis], max(1, -(-x.shape[axis] // count))))


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


@file_operator("torch.clamp", "Tensor.clamp", "F.hardtanh", "nn.Hardtanh", ignored=("inplace",))
def clamp(op: OperatorContext) -> Expr:
    """Elements kept between two numbers, of which one may be absent."""
    hard = op.definition.type.endswith(("Hardtanh", "hardtanh"))
    low, high = (
        op.argument(name + "_val" * hard, (-1.0, 1.0)[i] if hard else None) for i, name in enumerate(("min", "max"))
    )
    x = real(op.x) if any(isinstance(each, float) for each in (low, high)) else op.x
    return Clip(low, high, True)(x) if hard else clip(x, low, high)


def _enter_bound(name: str, records: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def bound(op: OperatorContext) -> Expr:
        bounded: Expr = function(records)(*promoted([op.x, value(op, 1, name.removeprefix("clamp_"))]))
        return bounded

    bound.__doc__ = f"The {records} of each element and a bound."


_enter_bound("clamp_min", "maximum")
_enter_bound("clamp_max", "minimum")


def _enter_comparison(name: str, records: str) -> None:
    @file_operator(f"torch.{name}", f"aten::{name}")
    def comparison(op: OperatorContext) -> Expr:
        compared: Expr = function(records)(*modular([op.x, value(op, 1, "other")]))
        return compared

    comparison.__doc__ = f"{records}, element by element."


for _torch, _ours in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"
}.items():  # fmt: skip
    _enter_comparison(_torch, _ours)


@file_operator("torch.where")
def where_(op: OperatorContext) -> Expr:
    """One of two values by a condition."""
    return where(op.tensor(0, "condition"), *promoted([value(op, 1, "input"), value(op, 2, "other")]))
