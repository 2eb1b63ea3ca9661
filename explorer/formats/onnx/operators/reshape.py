"""Shapes: what is computed of them when the net is built, and what they make of tensors.

Exporters write shape arithmetic as operators: Shape, Gather, Concat, Reshape. Shapes are known while a net is built, so
Shape gives a constant, what follows from it is computed at once (``operator_inputs.fold``), and the sizes that reach
Reshape are numbers.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Shape, broadcast_shapes, normalize_axis
from explorer.formats.common.operator_checks import range_length
from explorer.formats.onnx.operators.base.operator_inputs import dtype_of, first, input_value
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import (
    integers,
    is_given,
    known,
    number,
    optional_integers,
    required,
    whole,
)
from explorer.ops.base import broadcast_to
from explorer.ops.creation.constants import full
from explorer.ops.manipulation.rearrange import pixel_shuffle, pixel_unshuffle, tile, tril, triu
from explorer.ops.manipulation.reshape import reshape, transpose


@operator("Shape")
def shape(op: OperatorContext) -> Expr:
    """The sizes of a tensor, or of some of its axes."""
    sizes = first(op).shape
    end = op.integer("end", len(sizes))
    return tensor(np.array(sizes[slice(op.integer("start", 0), end)], np.int64))


@operator("Size")
def size(op: OperatorContext) -> Expr:
    """The number of elements."""
    return tensor(np.array(first(op).size, np.int64))


@operator("ConstantOfShape")
def constant_of_shape(op: OperatorContext) -> Expr:
    """One value everywhere."""
    value = op.weight("value").array if "value" in op.definition.weights else np.zeros(1, np.float32)
    if value.size != 1:
        raise OperandError(f"value has shape {value.shape}", rule="ConstantOfShape: value must be one number")
    return full(integers(op, "input"), value.reshape(()).item(), value.dtype)


@operator("Constant")
def constant(op: OperatorContext) -> Expr:
    """A tensor of the file."""
    return required(op, "value")


@operator("Range", ignored=("stash_type",))
def range_(op: OperatorContext) -> Expr:
    """Numbers from start to before limit."""
    start, limit, delta = (number(op, name) for name in ("start", "limit", "delta"))
    dtype = known(op, "start").dtype
    count = range_length(start, limit, delta, "Range")
    claim_constant("Range", count)
    return tensor((start + np.arange(count) * delta).astype(dtype, copy=False))


@operator("Reshape")
def reshape_(op: OperatorContext) -> Expr:
    """The same elements in another shape; 0 keeps a size, −1 is found from the others."""
    x, sizes = first(op), integers(op, "shape")
    if not op.integer("allowzero", 0):
        if any(size == 0 and axis >= x.ndim for axis, size in enumerate(sizes)):
            raise OperandError(
                f"shape={sizes} for {x.type}",
                rule="Reshape: a 0 must stand for an axis that X has, whose size it keeps",
            )
        sizes = tuple([x.shape[axis] if size == 0 else size for axis, size in enumerate(sizes)])
    return reshape(x, sizes)


@operator("Flatten")
def flatten(op: OperatorContext) -> Expr:
    """A matrix: the axes before ``axis`` merged, and those from there on."""
    x = first(op)
    axis = op.integer("axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        raise OperandError(f"axis={axis} for {x.type}", rule=f"Flatten: axis must lie in {-x.ndim} … {x.ndim}")
    axis = axis + x.ndim if axis < 0 else axis
    return reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])))


@operator("Squeeze")
def squeeze(op: OperatorContext) -> Expr:
    """Axes of size 1 dropped: those that are named, else all."""
    x, axes = first(op), optional_integers(op, "axes")
    if axes is None:
        return reshape(x, tuple([size for size in x.shape if size != 1]))
    dropped = {normalize_axis(axis, x.ndim, "Squeeze") for axis in axes}
    wrong = [axis for axis in sorted(dropped) if x.shape[axis] != 1]
    if wrong:
        raise OperandError(f"axes={axes} of {x.type}", rule="Squeeze: each axis that is dropped must have size 1")
    return reshape(x, tuple([size for axis, size in enumerate(x.shape) if axis not in dropped]))


@operator("Unsqueeze")
def unsqueeze(op: OperatorContext) -> Expr:
    """New axes of size 1, at places counted in the result."""
    x, axes = first(op), integers(op, "axes")
    rank = x.ndim + len(axes)
    places = {normalize_axis(axis, rank, "Unsqueeze") for axis in axes}
    if len(places) < len(axes):
        raise OperandError(f"axes={axes}", rule="Unsqueeze: each axis must be named once")
    old = iter(x.shape)
    return reshape(x, tuple([1 if axis in places else next(old) for axis in range(rank)]))


@operator("Expand")
def expand(op: OperatorContext) -> Expr:
    """Elements repeated to a shape; a size 1 there keeps the operand's."""
    x, sizes = first(op), integers(op, "shape")
    target = broadcast_shapes(x.shape, sizes)
    if target is None:
        raise OperandError(
            f"shape={sizes} for {x.type}", rule="Expand: the sizes of each axis must be equal, or one of them must be 1"
        )
    return broadcast_to(x, target)


@operator("Tile")
def tile_(op: OperatorContext) -> Expr:
    """The whole tensor repeated along each axis."""
    x, repeats = first(op), integers(op, "repeats")
    if len(repeats) != x.ndim:
        raise OperandError(f"repeats={repeats} for {x.type}", rule="Tile: repeats must have one number for each axis")
    return tile(x, repeats)


@operator("Transpose")
def transpose_(op: OperatorContext) -> Expr:
    """The axes in another order, reversed where none is given."""
    x = first(op)
    return transpose(x, op.integers("perm") if is_given(op, "perm") else None)


@operator("Identity")
def identity(op: OperatorContext) -> Any:
    """The operand itself, also a sequence or an optional."""
    return (input_value(op, "input"),)


@operator("Dropout", ignored=("seed", "ratio"))
def dropout(op: OperatorContext) -> Expr | tuple[Expr, ...]:
    """The operand itself; the mask of a dropout that is not trained with keeps all."""
    x = first(op)
    if is_given(op, "training_mode") and number(op, "training_mode") and number(op, "ratio"):
        raise OperandError("training_mode=True", rule="Dropout must not be in training mode")
    return x if len(op.definition.outputs) == 1 else (x, full(x.shape, True, np.bool_))


@operator("DepthToSpace")
def depth_to_space(op: OperatorContext) -> Expr:
    """Blocks of channels as blocks of pixels."""
    x, block = first(op), op.integer("blocksize")
    if op.word("mode", "DCR", ("DCR", "CRD")) == "CRD":
        return pixel_shuffle(x, block)
    n, c, h, w = _image(op, x)
    if block < 1 or c % block**2:
        raise OperandError(
            f"blocksize={block} for {x.type}",
            rule="DepthToSpace: the number of channels must be a multiple of blocksize²",
        )
    # DCR: depth, column, row. The block's position is the slow part of the channel, where pixel_shuffle has it fast.
    spread = transpose(reshape(x, (n, block, block, c // block**2, h, w)), (0, 3, 4, 1, 5, 2))
    return reshape(spread, (n, c // block**2, h * block, w * block))


@operator("SpaceToDepth")
def space_to_depth(op: OperatorContext) -> Expr:
    """Blocks of pixels as blocks of channels."""
    x, block = first(op), op.integer("blocksize")
    if op.word("mode", "DCR", ("DCR", "CRD")) == "CRD":
        return pixel_unshuffle(x, block)
    n, c, h, w = _image(op, x)
    if block < 1 or h % block or w % block:
        raise OperandError(
            f"blocksize={block} for {x.type}", rule="SpaceToDepth: height and width must be multiples of blocksize"
        )
    blocks = reshape(x, (n, c, h // block, block, w // block, block))
    return reshape(transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * block**2, h // block, w // block))


def _image(op: OperatorContext, x: Expr) -> Shape:
    if x.ndim != 4:
        raise OperandError(
            f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be images (N, C, H, W)"
        )
    return x.shape


@operator("Trilu")
def triangle(op: OperatorContext) -> Expr:
    """Matrices with zeros below a diagonal, or above it."""
    k = whole(op, "k") if is_given(op, "k") else 0
    return triu(first(op), k) if op.integer("upper", 1) else tril(first(op), k)


@operator("EyeLike")
def eye_like(op: OperatorContext) -> Expr:
    """Ones on a diagonal, of the shape of a matrix."""
    x = first(op)
    if x.ndim != 2:
        raise OperandError(f"an operand {x.type}", rule="EyeLike: the operand must be a matrix")
    dtype = dtype_of(op, "dtype") if op.has("dtype") else x.dtype
    claim_constant("EyeLike", x.size, dtype.itemsize)
    return tensor(np.eye(x.shape[0], x.shape[1], k=op.integer("k", 0), dtype=dtype))
