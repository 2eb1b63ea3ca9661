"""Reshaping, transposition, concatenation and blocks, and operators that return or compute shapes.

Converters compute shapes from shapes (SHAPE, PACK, STRIDED_SLICE). All lengths are known when a net is built, so SHAPE
returns a constant, and shapes computed from it are also constants.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import Array, normalize_axis
from explorer.formats.common.operator_checks import range_length, with_one_dtype, with_rank
from explorer.formats.tflite.operators.activation import apply_activation
from explorer.formats.tflite.operators.integer_arithmetic import (
    Activation,
    has_scale,
    saturated_cast,
    scale_and_zero_point,
    with_dtype,
)
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import as_number, known_value
from explorer.net.operators.signature import Ints, Known, Unused
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import sign
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.rearrange import tile
from explorer.ops.manipulation.reshape import expand_dims, squeeze, transpose
from explorer.record.reasons import counted_text


@operator("RESHAPE", moves=True)
def reshape_(input: Expr, shape: Known[Ints] | None = None, *, new_shape: Ints | None = None) -> Expr:
    """Return ``input`` reshaped to ``shape`` or, if ``shape`` is missing, to ``new_shape``; one length may be −1."""
    shape = new_shape if shape is None else shape
    if shape is None:
        raise OperandError("no shape is given", rule="there must be an operand shape, or an option new_shape")
    if shape == (0,):
        shape = ()  # old converters write (0,) for a scalar
    free = [axis for axis, length in enumerate(shape) if length == -1]
    rest = math.prod(length for length in shape if length != -1)
    if len(free) > 1 or min(shape, default=0) < -1 or (free and (not rest or input.size % rest)):
        raise OperandError(
            f"input is {input.type}, shape {shape}",
            rule="at most one length may be −1, and the others must divide the number of elements",
        )
    full_shape = tuple([input.size // rest if length == -1 else length for length in shape])
    if math.prod(full_shape) != input.size:
        raise OperandError(f"input is {input.type}, shape {shape}", rule="both must have the same number of elements")
    return reshape(input, full_shape)


@operator("TRANSPOSE", moves=True)
def transpose_(input: Expr, perm: Known[Ints]) -> Expr:
    """Return ``input`` with its axes in the order ``perm``."""
    return transpose(input, perm)


@operator("EXPAND_DIMS", moves=True)
def expand_dims_(input: Expr, axis: Known[int]) -> Expr:
    """Return ``input`` with an additional axis of length 1 at the index ``axis``."""
    return expand_dims(input, axis)


@operator("SQUEEZE", moves=True)
def squeeze_(input: Expr, *, squeeze_dims: Ints = ()) -> Expr:
    """Return ``input`` without the axes ``squeeze_dims``, or without all axes of length 1 if none are given."""
    return squeeze(input, tuple([normalize_axis(axis, input.ndim, "SQUEEZE") for axis in squeeze_dims]) or None)


@operator("CONCATENATION", quantized=True)
def concatenation(
    op: OperatorContext, *inputs: Expr, axis: int = 0, fused_activation_function: Activation = "NONE"
) -> Expr:
    """Return the operands concatenated along ``axis``; uint8 operands may have different scales."""
    values = _of_one_dtype(inputs)
    is_plain = fused_activation_function == "NONE"
    if has_scale(op, "output") and op.argument("output.dtype") == "uint8" and is_plain:
        return concatenate([_rescaled(op, position, x) for position, x in enumerate(values)], axis)
    check_real(op, moves=True)
    return apply_activation(concatenate(values, axis), fused_activation_function)


def _rescaled(op: OperatorContext, position: int, x: Expr) -> Expr:
    """Return the uint8 operand ``x``, converted to the scale of the result in single precision."""
    (scale, zero), (own_scale, own_zero) = (
        scale_and_zero_point(op, f"inputs.{position}"),
        scale_and_zero_point(op, "output"),
    )
    with_dtype(np.dtype(np.uint8), **{f"inputs.{position}": x})
    if (scale, zero) == (own_scale, own_zero):
        return x
    with np.errstate(over="ignore"):
        factor = scale * (np.float32(1) / own_scale)
        if not np.isfinite(factor):
            raise OperandError(f"a factor of {factor}", rule="the quotient of the scales must be finite in float32")
        value = cast(x, np.dtype(np.float32)) * factor + np.float32(-zero) * factor
    return saturated_cast(trunc(value + sign(value) * np.float32(0.5)) + own_zero, x.dtype)


@operator("PACK", moves=True)
def pack(*inputs: Expr, axis: int = 0, values_count: Unused) -> Expr:
    """Return the operands stacked along a new axis."""
    return stack(_of_one_dtype(inputs), axis)


def _of_one_dtype(inputs: tuple[Expr, ...]) -> tuple[Expr, ...]:
    with_one_dtype(**{f"inputs.{position}": value for position, value in enumerate(inputs)})
    return inputs


@operator("UNPACK", moves=True)
def unpack(input: Expr, *, axis: int = 0, num: Unused) -> tuple[Expr, ...]:
    """Return the elements along ``axis`` as separate tensors."""
    axis = normalize_axis(axis, input.ndim, "UNPACK")
    claim_steps("UNPACK", input.shape[axis])
    return tuple([input[(*[slice(None)] * axis, position)] for position in range(input.shape[axis])])


@operator("TILE", moves=True)
def tile_(input: Expr, multiples: Known[Ints]) -> Expr:
    """Return ``input`` repeated ``multiples[i]`` times along each axis i."""
    if len(multiples) != input.ndim or min(multiples, default=0) < 0:
        raise OperandError(f"multiples={multiples} for {input.type}", rule="there must be a count for each axis")
    return tile(input, multiples)


@operator("BROADCAST_TO", moves=True)
def broadcast(input: Expr, shape: Known[Ints]) -> Expr:
    """Return ``input`` broadcast to ``shape``."""
    return broadcast_to(input, shape)


@operator("FILL", moves=True)
def fill(shape: Known[Ints], value: Expr) -> Expr:
    """Return a tensor of shape ``shape`` filled with ``value``."""
    return broadcast_to(value, shape)


@operator("RANK", quantized=True)
def rank(input: Expr) -> Expr:
    """Return the number of axes."""
    return tensor(np.array(input.ndim, np.int32))


@operator("SHAPE", quantized=True)
def shape(input: Expr, *, out_type: str = "int32") -> Expr:
    """Return the lengths of the axes."""
    return tensor(np.array(input.shape, "int64" if out_type == "int64" else "int32"))


@operator("RANGE")
def range_(op: OperatorContext, start: Expr, limit: Expr, delta: Expr) -> Expr:
    """Return the numbers from ``start`` (inclusive) to ``limit`` (exclusive) in steps of ``delta``."""
    # arrays, since Python numbers would not have the dtype of the result
    values = {name: known_value(op, name, x) for name, x in (("start", start), ("limit", limit), ("delta", delta))}
    first, end, step = [as_number(op, name, value) for name, value in values.items()]
    dtype = values["start"].dtype
    length = range_length(first, end, step, "RANGE")
    if dtype == np.float32:
        # The length is computed in single precision, where rounding may raise the quotient to the next integer.
        with np.errstate(all="ignore"):
            ratio = np.ceil(np.abs((np.float32(end) - np.float32(first)) / np.float32(step)))
        length = int(min(ratio, np.float32(2.0**62))) if length else 0
    claim_constant("RANGE", length, dtype.itemsize)
    # The interpreter adds the step repeatedly, and rounds each sum.
    steps = np.full(length, step, dtype)
    steps[:1] = first
    return tensor(np.add.accumulate(steps, dtype=dtype))


@operator("DEPTH_TO_SPACE", moves=True)
def depth_to_space(input: Expr, *, block_size: int) -> Expr:
    """Return ``input`` with channels moved to blocks of ``block_size`` × ``block_size`` pixels."""
    (count, height, width, channels), size = _image_shape(input, block_size), block_size
    if channels % (size * size):
        raise OperandError(
            f"{counted_text(channels, 'channel')}, block_size={size}", rule="the block must divide the channels"
        )
    parts = reshape(input, (count, height, width, size, size, channels // size**2))
    output_shape = (count, height * size, width * size, channels // size**2)
    return reshape(transpose(parts, (0, 1, 3, 2, 4, 5)), output_shape)


@operator("SPACE_TO_DEPTH", moves=True)
def space_to_depth(input: Expr, *, block_size: int) -> Expr:
    """Return ``input`` with blocks of ``block_size`` × ``block_size`` pixels moved to channels."""
    (count, height, width, channels), size = _image_shape(input, block_size), block_size
    if height % size or width % size:
        raise OperandError(f"{input.type}, block_size={size}", rule="the block must divide height and width")
    parts = reshape(input, (count, height // size, size, width // size, size, channels))
    output_shape = (count, height // size, width // size, size**2 * channels)
    return reshape(transpose(parts, (0, 1, 3, 2, 4, 5)), output_shape)


def _image_shape(x: Expr, block_size: int) -> tuple[int, ...]:
    if block_size < 1:
        raise OperandError(f"block_size={block_size}", rule="block_size must be at least 1")
    return with_rank("input", x, "N", "H", "W", "C").shape


@operator("SPACE_TO_BATCH_ND", quantized=True)
def space_to_batch(op: OperatorContext, input: Expr, block_shape: Known[Ints], paddings: Known[Array]) -> Expr:
    """Return ``input``, padded, with blocks of pixels moved to the batch axis."""
    check_real(op, moves=True)
    blocks, sides = block_shape, _sides(input, block_shape, paddings, "paddings")
    # The zero point represents zero.
    zero = scale_and_zero_point(op, "output")[1] if has_scale(op, "output") else 0
    y = pad(input, ((0, 0), *sides, *[(0, 0)] * (input.ndim - 1 - len(blocks))), constant_values=zero)
    if any(length % block for length, block in zip(y.shape[1:], blocks, strict=False)):
        raise OperandError(f"{y.type} with padding, blocks {blocks}", rule="blocks must divide the padded lengths")
    count, rest = len(blocks), y.shape[1 + len(blocks) :]
    inner = [part for length, block in zip(y.shape[1:], blocks, strict=False) for part in (length // block, block)]
    parts = reshape(y, (y.shape[0], *inner, *rest))
    order = (*[2 * axis + 2 for axis in range(count)], 0, *[2 * axis + 1 for axis in range(count)])
    transposed = transpose(parts, (*order, *range(2 * count + 1, parts.ndim)))
    return reshape(transposed, (y.shape[0] * math.prod(blocks), *inner[::2], *rest))


@operator("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space(input: Expr, block_shape: Known[Ints], crops: Known[Array]) -> Expr:
    """Return ``input`` with batch elements moved to blocks of pixels, and with the borders cropped."""
    blocks, sides = block_shape, _sides(input, block_shape, crops, "crops")
    count, rest, size = len(blocks), input.shape[1 + len(blocks) :], math.prod(blocks)
    if input.shape[0] % size:
        raise OperandError(f"{input.type}, blocks {blocks}", rule="the blocks must divide the batch")
    parts = reshape(input, (*blocks, input.shape[0] // size, *input.shape[1:]))
    order = [count, *[each for axis in range(count) for each in (count + 1 + axis, axis)]]
    transposed = transpose(parts, (*order, *range(2 * count + 1, parts.ndim)))
    lengths = [length * block for length, block in zip(input.shape[1:], blocks, strict=False)]
    y = reshape(transposed, (input.shape[0] // size, *lengths, *rest))
    cropped = tuple([(-before, -after) for before, after in sides])
    return pad(y, ((0, 0), *cropped, *[(0, 0)] * (y.ndim - 1 - count)))


def _sides(x: Expr, blocks: tuple[int, ...], sides: Array, name: str) -> tuple[tuple[int, int], ...]:
    """Return the numbers of elements to add or crop at both ends of each axis; raise OperandError if invalid."""
    if min(blocks, default=0) < 1 or sides.shape != (len(blocks), 2) or sides.min() < 0 or x.ndim <= len(blocks):
        raise OperandError(
            f"input is {x.type}, block_shape={blocks}, {name}={sides.tolist()}",
            rule=f"block sizes must be at least 1, and each must have two nonnegative {name}",
        )
    return tuple([(int(before), int(after)) for before, after in sides.tolist()])
