"""Operators that compute shapes and change the shapes of tensors.

Exporters write shape arithmetic as operators: Shape, Gather, Concat, Reshape. Since shapes are known while a net is
built, Shape returns a constant, ``known_inputs.fold`` folds computations with it, and Reshape receives known lengths.
"""

from __future__ import annotations

from math import prod
from typing import Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array, Shape, broadcast_shapes, normalize_axis
from explorer.formats.common.operator_checks import range_length
from explorer.formats.onnx.operators.base.operator_inputs import dtype_of_code
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.signature import Ints, Known, Outputs, Unused
from explorer.ops.base import broadcast_to
from explorer.ops.creation.constants import full
from explorer.ops.manipulation.rearrange import pixel_shuffle, pixel_unshuffle, tile, tril, triu
from explorer.ops.manipulation.reshape import reshape, transpose


@operator("Shape")
def shape(data: Expr, *, start: int = 0, end: int | None = None) -> Expr:
    """Return the shape of a tensor, from axis ``start`` up to but excluding axis ``end``."""
    return tensor(np.array(data.shape[start:end], np.int64))


@operator("Size")
def size(data: Expr) -> Expr:
    """Return the number of elements."""
    return tensor(np.array(data.size, np.int64))


@operator("ConstantOfShape")
def constant_of_shape(input: Known[Ints], *, value: Known[Array] | None = None) -> Expr:
    """Return a tensor of shape ``input`` filled with one value."""
    value = np.zeros(1, np.float32) if value is None else value
    if value.size != 1:
        raise OperandError(f"value has shape {value.shape}", rule="ConstantOfShape: value must be one number")
    return full(input, value.reshape(()).item(), value.dtype)


@operator("Constant")
def constant(*, value: Expr) -> Expr:
    """Return a tensor stored in the file."""
    return value


@operator("Range")
def range_(start: Known[Array], limit: Known[float], delta: Known[float], *, stash_type: Unused) -> Expr:
    """Return the numbers from ``start`` up to but excluding ``limit``, in steps of ``delta``."""
    if start.size != 1:
        raise OperandError(f"start has shape {start.shape}", rule="Range: start must be one number")
    first = start.reshape(()).item()
    count = range_length(first, limit, delta, "Range")
    claim_constant("Range", count)
    return tensor((first + np.arange(count) * delta).astype(start.dtype, copy=False))


@operator("Reshape")
def reshape_(data: Expr, shape: Known[Ints], *, allowzero: int = 0) -> Expr:
    """Return the elements in another shape; 0 keeps a length, and −1 is inferred from the other lengths."""
    if not allowzero:
        if any(size == 0 and axis >= data.ndim for axis, size in enumerate(shape)):
            raise OperandError(
                f"shape={shape} for {data.type}",
                rule="Reshape: a 0 keeps the size of an axis, so the operand must have this axis",
            )
        shape = tuple([data.shape[axis] if size == 0 else size for axis, size in enumerate(shape)])
    return reshape(data, shape)


@operator("Flatten")
def flatten(input: Expr, *, axis: int = 1) -> Expr:
    """Return a matrix whose rows merge the axes before ``axis``, and whose columns merge all other axes."""
    rank = input.ndim
    if not -rank <= axis <= rank:
        raise OperandError(f"axis={axis} for {input.type}", rule=f"Flatten: axis must be in {-rank} … {rank}")
    axis = axis + rank if axis < 0 else axis
    return reshape(input, (prod(input.shape[:axis]), prod(input.shape[axis:])))


@operator("Squeeze")
def squeeze(data: Expr, axes: Known[Ints] | None = None) -> Expr:
    """Remove the given axes of length 1, by default all of them."""
    if axes is None:
        return reshape(data, tuple([size for size in data.shape if size != 1]))
    removed = {normalize_axis(axis, data.ndim, "Squeeze") for axis in axes}
    if any(data.shape[axis] != 1 for axis in removed):
        raise OperandError(f"axes={axes} of {data.type}", rule="Squeeze: each removed axis must have size 1")
    return reshape(data, tuple([size for axis, size in enumerate(data.shape) if axis not in removed]))


@operator("Unsqueeze")
def unsqueeze(data: Expr, axes: Known[Ints]) -> Expr:
    """Insert axes of length 1; ``axes`` are their indices in the result."""
    rank = data.ndim + len(axes)
    new = {normalize_axis(axis, rank, "Unsqueeze") for axis in axes}
    if len(new) < len(axes):
        raise OperandError(f"axes={axes}", rule="Unsqueeze: axes must be unique")
    old = iter(data.shape)
    return reshape(data, tuple([1 if axis in new else next(old) for axis in range(rank)]))


@operator("Expand")
def expand(input: Expr, shape: Known[Ints]) -> Expr:
    """Broadcast the operand to a shape, in which 1 keeps a length of the operand."""
    target = broadcast_shapes(input.shape, shape)
    if target is None:
        raise OperandError(
            f"shape={shape} for {input.type}",
            rule="Expand: the sizes of each axis must be equal, or one of them must be 1",
        )
    return broadcast_to(input, target)


@operator("Tile")
def tile_(input: Expr, repeats: Known[Ints]) -> Expr:
    """Repeat the tensor along each axis."""
    if len(repeats) != input.ndim:
        raise OperandError(
            f"repeats={repeats} for {input.type}", rule="Tile: repeats must have one number for each axis"
        )
    return tile(input, repeats)


@operator("Transpose")
def transpose_(data: Expr, *, perm: Ints | None = None) -> Expr:
    """Permute the axes; reverse them by default."""
    return transpose(data, perm)


@operator("Dropout")
def dropout(
    data: Expr, ratio: Known[float] = 0.5, training_mode: Known[Array] | None = None, *, seed: Unused, outputs: Outputs
) -> Expr | tuple[Expr, ...]:
    """Return the operand and a mask of True, since training mode is not supported."""
    if training_mode is not None and training_mode.any() and ratio:
        raise OperandError("training_mode=True", rule="Dropout must not be in training mode")
    return data if outputs == 1 else (data, full(data.shape, True, np.bool_))


@operator("DepthToSpace")
def depth_to_space(input: Expr, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Expr:
    """Move blocks of channels to blocks of pixels."""
    if mode == "CRD":
        return pixel_shuffle(input, blocksize)
    n, c, h, w = _image(input)
    if blocksize < 1 or c % blocksize**2:
        raise OperandError(
            f"blocksize={blocksize} for {input.type}",
            rule="DepthToSpace: the number of channels must be a multiple of blocksize²",
        )
    # In DCR, the position in the block varies slowest along the channels; in pixel_shuffle, it varies fastest.
    depth = c // blocksize**2
    spread = transpose(reshape(input, (n, blocksize, blocksize, depth, h, w)), (0, 3, 4, 1, 5, 2))
    return reshape(spread, (n, depth, h * blocksize, w * blocksize))


@operator("SpaceToDepth")
def space_to_depth(input: Expr, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR") -> Expr:
    """Move blocks of pixels to blocks of channels."""
    if mode == "CRD":
        return pixel_unshuffle(input, blocksize)
    n, c, h, w = _image(input)
    if blocksize < 1 or h % blocksize or w % blocksize:
        raise OperandError(
            f"blocksize={blocksize} for {input.type}",
            rule="SpaceToDepth: height and width must be multiples of blocksize",
        )
    rows, columns = h // blocksize, w // blocksize
    blocks = reshape(input, (n, c, rows, blocksize, columns, blocksize))
    return reshape(transpose(blocks, (0, 3, 5, 1, 2, 4)), (n, c * blocksize**2, rows, columns))


def _image(x: Expr) -> Shape:
    if x.ndim != 4:
        raise OperandError(f"an operand {x.type}", rule="the operand must be images (N, C, H, W)")
    return x.shape


@operator("Trilu")
def triangle(input: Expr, k: Known[int] = 0, *, upper: int = 1) -> Expr:
    """Return matrices with zeros below a diagonal, or above it if ``upper`` is 0."""
    return triu(input, k) if upper else tril(input, k)


@operator("EyeLike")
def eye_like(input: Expr, *, dtype: int | None = None, k: int = 0) -> Expr:
    """Return a matrix of the operand's shape with ones on a diagonal."""
    if input.ndim != 2:
        raise OperandError(f"an operand {input.type}", rule="EyeLike: the operand must be a matrix")
    result_dtype = input.dtype if dtype is None else dtype_of_code(dtype, "dtype")
    claim_constant("EyeLike", input.size, result_dtype.itemsize)
    return tensor(np.eye(input.shape[0], input.shape[1], k=k, dtype=result_dtype))
