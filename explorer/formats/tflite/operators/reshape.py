"""Other forms of the same elements: shapes, orders of axes, blocks, lists of tensors, and shapes themselves.

Converters write shapes that are computed from shapes (SHAPE, PACK, STRIDED_SLICE): lengths are known when a net is
built, so that SHAPE is a constant, and operators that need a shape read it from what is computed from constants.
"""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.types.tensor_type import normalize_axis
from explorer.formats.common.operator_checks import range_length, with_one_dtype, with_rank
from explorer.formats.tflite.operators.activation import activated
from explorer.formats.tflite.operators.integer_arithmetic import is_quantized, single, with_dtype
from explorer.formats.tflite.operators.table import check_real, operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import integers, is_given, known, members, number, required, whole
from explorer.ops.base import broadcast_to, cast, reshape
from explorer.ops.elementwise.rounding_and_bits import trunc
from explorer.ops.elementwise.unary import sign
from explorer.ops.manipulation.concat import concatenate, stack
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.rearrange import tile
from explorer.ops.manipulation.reshape import expand_dims, squeeze, transpose
from explorer.ops.nn.activation import clip
from explorer.record.reasons import counted_text

_BLOCKS = ("N", "H", "W", "C")


# the operand counts where there are both
@operator("RESHAPE", moves=True, ignored=("new_shape",))
def reshape_(op: OperatorContext) -> Expr:
    """Another shape, of which one length may be −1."""
    x = required(op, "input")
    shape = integers(op, "shape") if is_given(op, "shape") else op.integers("new_shape")
    if shape == (0,):
        shape = ()  # old converters write a scalar so
    free = [axis for axis, length in enumerate(shape) if length == -1]
    rest = math.prod(length for length in shape if length != -1)
    if len(free) > 1 or min(shape, default=0) < -1 or (free and (not rest or x.size % rest)):
        raise OperandError(
            f"input is {x.type}, shape {shape}", rule="RESHAPE: at most one length must be −1, the others must divide"
        )
    whole_shape = tuple([x.size // rest if length == -1 else length for length in shape])
    if math.prod(whole_shape) != x.size:
        raise OperandError(f"input is {x.type}, shape {shape}", rule="RESHAPE: both must have as many elements")
    return reshape(x, whole_shape)


@operator("TRANSPOSE", moves=True)
def transpose_(op: OperatorContext) -> Expr:
    """Axes in another order."""
    return transpose(required(op, "input"), integers(op, "perm"))


@operator("EXPAND_DIMS", moves=True)
def expand_dims_(op: OperatorContext) -> Expr:
    """Another axis of length 1."""
    return expand_dims(required(op, "input"), whole(op, "axis"))


@operator("SQUEEZE", moves=True)
def squeeze_(op: OperatorContext) -> Expr:
    """Without axes of length 1: those that are named, or all."""
    x, axes = required(op, "input"), op.integers("squeeze_dims", ())
    return squeeze(x, tuple([normalize_axis(axis, x.ndim, "SQUEEZE") for axis in axes]) or None)


@operator("CONCATENATION", quantized=True)
def concatenation(op: OperatorContext) -> Expr:
    """Operands one behind the other along an axis; those of uint8 may have scales of their own."""
    if (
        is_quantized(op)
        and op.argument("output.dtype") == "uint8"
        and op.argument("fused_activation_function", "NONE") == "NONE"
    ):
        return concatenate([_rescaled(op, place, x) for place, x in enumerate(_members(op))], op.integer("axis", 0))
    check_real(op, moves=True)
    return activated(op, concatenate(_members(op), op.integer("axis", 0)))


def _rescaled(op: OperatorContext, place: int, x: Expr) -> Expr:
    """Return an operand of uint8 in the scale of the result, in single precision."""
    (scale, zero), (own_scale, own_zero) = single(op, f"inputs.{place}"), single(op, "output")
    with_dtype(op, np.dtype(np.uint8), **{f"inputs.{place}": x})
    if (scale, zero) == (own_scale, own_zero):
        return x
    with np.errstate(over="ignore"):
        factor = scale * (np.float32(1) / own_scale)
        if not np.isfinite(factor):
            raise OperandError(
                f"a factor of {factor}", rule="CONCATENATION: both scales must make a factor of single precision"
            )
        value = cast(x, np.dtype(np.float32)) * factor + np.float32(-zero) * factor
    nearest = trunc(value + sign(value) * np.float32(0.5)) + own_zero
    return cast(clip(nearest, 0, 255), x.dtype)


@operator("PACK", moves=True, ignored=("values_count",))
def pack(op: OperatorContext) -> Expr:
    """Operands along an axis of their own."""
    return stack(_members(op), op.integer("axis", 0))


def _members(op: OperatorContext) -> tuple[Expr, ...]:
    values = members(op, "inputs")
    with_one_dtype(**{f"inputs.{place}": value for place, value in enumerate(values)})
    return values


@operator("UNPACK", moves=True, ignored=("num",))
def unpack(op: OperatorContext) -> tuple[Expr, ...]:
    """The elements along an axis, one by one."""
    x = required(op, "input")
    axis = normalize_axis(op.integer("axis", 0), x.ndim, "UNPACK")
    claim_steps("UNPACK", x.shape[axis])
    return tuple([x[(*[slice(None)] * axis, place)] for place in range(x.shape[axis])])


@operator("TILE", moves=True)
def tile_(op: OperatorContext) -> Expr:
    """Repetitions along each axis."""
    x, counts = required(op, "input"), integers(op, "multiples")
    if len(counts) != x.ndim or min(counts, default=0) < 0:
        raise OperandError(f"multiples={counts} for {x.type}", rule="TILE: there must be a count for each axis")
    return tile(x, counts)


@operator("BROADCAST_TO", moves=True)
def broadcast(op: OperatorContext) -> Expr:
    """The same elements for a larger shape."""
    return broadcast_to(required(op, "input"), integers(op, "shape"))


@operator("FILL", moves=True)
def fill(op: OperatorContext) -> Expr:
    """One value for a whole shape."""
    return broadcast_to(required(op, "value"), integers(op, "shape"))


@operator("SHAPE", "RANK", quantized=True)
def shape(op: OperatorContext) -> Expr:
    """The lengths of the axes, or their number."""
    x = required(op, "input")
    if op.definition.type == "RANK":
        return tensor(np.array(x.ndim, np.int32))
    return tensor(np.array(x.shape, "int64" if op.argument("out_type", "int32") == "int64" else "int32"))


@operator("RANGE")
def range_(op: OperatorContext) -> Expr:
    """Numbers from start to before limit by delta."""
    start, limit, step = [number(op, name) for name in ("start", "limit", "delta")]
    dtype = known(op, "start").dtype
    length = range_length(start, limit, step, "RANGE")
    if dtype == np.float32:
        # counted in single precision, in which the quotient may be the next whole number
        with np.errstate(all="ignore"):
            ratio = np.ceil(np.abs((np.float32(limit) - np.float32(start)) / np.float32(step)))
        length = int(min(ratio, np.float32(2.0**62))) if length else 0
    claim_constant("RANGE", length, dtype.itemsize)
    # the interpreter adds the step again and again, and rounds each sum
    steps = np.full(length, step, dtype)
    steps[:1] = start
    return tensor(np.add.accumulate(steps, dtype=dtype))


@operator("DEPTH_TO_SPACE", moves=True)
def depth_to_space(op: OperatorContext) -> Expr:
    """Channels as blocks of pixels."""
    x, size = with_rank("input", required(op, "input"), *_BLOCKS), _block(op)
    count, height, width, channels = x.shape
    if channels % (size * size):
        raise OperandError(
            f"{counted_text(channels, 'channel')}, block_size={size}", rule="the block must divide the channels"
        )
    parts = reshape(x, (count, height, width, size, size, channels // size**2))
    whole_image = (count, height * size, width * size, channels // size**2)
    return reshape(transpose(parts, (0, 1, 3, 2, 4, 5)), whole_image)


@operator("SPACE_TO_DEPTH", moves=True)
def space_to_depth(op: OperatorContext) -> Expr:
    """Blocks of pixels as channels."""
    x, size = with_rank("input", required(op, "input"), *_BLOCKS), _block(op)
    count, height, width, channels = x.shape
    if height % size or width % size:
        raise OperandError(f"{x.type}, block_size={size}", rule="the block must divide height and width")
    parts = reshape(x, (count, height // size, size, width // size, size, channels))
    whole_image = (count, height // size, width // size, size**2 * channels)
    return reshape(transpose(parts, (0, 1, 3, 2, 4, 5)), whole_image)


def _block(op: OperatorContext) -> int:
    size = op.integer("block_size")
    if size < 1:
        raise OperandError(f"block_size={size}", rule=f"{op.definition.type}: block_size must be 1 or more")
    return size


@operator("SPACE_TO_BATCH_ND", quantized=True)
def space_to_batch(op: OperatorContext) -> Expr:
    """Blocks of pixels, with padding, as further elements of the batch."""
    check_real(op, moves=True)
    x, blocks, sides = _blocks(op, "paddings")
    # the zero point stands for zero
    zero = single(op, "output")[1] if is_quantized(op) else 0
    y = pad(x, ((0, 0), *sides, *[(0, 0)] * (x.ndim - 1 - len(blocks))), constant_values=zero)
    if any(length % block for length, block in zip(y.shape[1:], blocks, strict=False)):
        raise OperandError(f"{y.type} with padding, blocks {blocks}", rule="blocks must divide the padded lengths")
    count, rest = len(blocks), y.shape[1 + len(blocks) :]
    inner = [part for length, block in zip(y.shape[1:], blocks, strict=False) for part in (length // block, block)]
    parts = reshape(y, (y.shape[0], *inner, *rest))
    order = (*[2 * place + 2 for place in range(count)], 0, *[2 * place + 1 for place in range(count)])
    turned = transpose(parts, (*order, *range(2 * count + 1, parts.ndim)))
    return reshape(turned, (y.shape[0] * math.prod(blocks), *inner[::2], *rest))


@operator("BATCH_TO_SPACE_ND", moves=True)
def batch_to_space(op: OperatorContext) -> Expr:
    """Elements of the batch as blocks of pixels, of which the borders are cropped."""
    x, blocks, sides = _blocks(op, "crops")
    count, rest, size = len(blocks), x.shape[1 + len(blocks) :], math.prod(blocks)
    if x.shape[0] % size:
        raise OperandError(f"{x.type}, blocks {blocks}", rule="the blocks must divide the batch")
    parts = reshape(x, (*blocks, x.shape[0] // size, *x.shape[1:]))
    order = [count, *[axis for place in range(count) for axis in (count + 1 + place, place)]]
    turned = transpose(parts, (*order, *range(2 * count + 1, parts.ndim)))
    lengths = [length * block for length, block in zip(x.shape[1:], blocks, strict=False)]
    y = reshape(turned, (x.shape[0] // size, *lengths, *rest))
    cropped = tuple([(-before, -after) for before, after in sides])
    return pad(y, ((0, 0), *cropped, *[(0, 0)] * (y.ndim - 1 - count)))


def _blocks(op: OperatorContext, name: str) -> tuple[Expr, tuple[int, ...], tuple[tuple[int, int], ...]]:
    x, blocks, sides = required(op, "input"), integers(op, "block_shape"), known(op, name)
    if min(blocks, default=0) < 1 or sides.shape != (len(blocks), 2) or sides.min() < 0 or x.ndim <= len(blocks):
        raise OperandError(
            f"input is {x.type}, block_shape={blocks}, {name}={sides.tolist()}",
            rule=f"{op.definition.type}: blocks must be 1 or more, with two {name} for each",
        )
    return x, blocks, tuple([(int(before), int(after)) for before, after in sides.tolist()])
