"""Padding: elements added before and after the elements of each axis.

Padding with a constant is an operation. The other modes are composed of slices and concatenations, so they need no
gradient rule.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, Number, Shape, TensorType, as_integer
from explorer.ops.base import broadcast_to
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.slicing import Slice, part_of

__all__ = ["pad"]

Widths: TypeAlias = tuple[tuple[int, int], ...]
"""for each axis, the numbers of elements added before and after it"""
MODES = ("constant", "reflect", "edge", "wrap")


class Pad(Operation):
    """Padding with one value before and after the elements of each axis."""

    family = "movement"
    widths: Widths
    value: Number = 0
    examples = (
        Example(real(2, 3), widths=((1, 0), (2, 1))),
        Example(real(3), widths=((1, 2),), value=-2.5),
        Example(real(2, 2), widths=((0, 0), (0, 1)), value=1),
    )

    def infer(self, x: TensorType) -> TensorType:
        if len(self.widths) != x.rank or any(min(sides) < 0 for sides in self.widths):
            raise self.refuse((x,), f"each axis must have two widths ≥ 0, not {self.widths}")
        if not _is_representable(x.dtype, self.value):
            raise self.refuse((x,), f"the value {self.value} must be representable in dtype {x.dtype}")
        return x.with_shape(
            tuple([before + size + after for size, (before, after) in zip(x.shape, self.widths, strict=True)])
        )

    def kernel(self, out: Array, x: Array) -> Array:
        inner = self.inner(x.shape)
        for axis, (before, after) in enumerate(self.widths):
            ends: tuple[slice, ...] = slice(before), slice(out.shape[axis] - after, None)
            # along earlier axes, only the inner part is written, so no element is written twice
            for end in ends:
                out[(*inner[:axis], end)] = self.value
        out[inner] = x
        return out

    def inner(self, shape: Shape) -> tuple[slice, ...]:
        """Return the slices of the result that contain an operand of ``shape``."""
        return tuple([slice(before, before + size) for size, (before, _) in zip(shape, self.widths, strict=True)])

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        spans = tuple(
            # Slice represents every empty range as (0, 0, 1)
            [(part.start, part.stop, 1) if part.start < part.stop else (0, 0, 1) for part in self.inner(x.shape)]
        )
        return (Slice(spans)(g),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return Pad(((0, 0), *self.widths), self.value)(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0


@public
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Number = 0) -> Expr:
    """Pad ``x`` at both ends of each axis; negative widths remove elements.

    ``pad_width`` is one number, one pair (before, after), or one pair for each axis. Modes are named as in NumPy:
    ``constant``, ``reflect`` (mirrored without the outermost element), ``edge`` (the outermost element repeated),
    ``wrap`` (elements of the other end).

    Raises OperandError if ``x`` has too few elements for the mode. (ONNX: Pad; PNNX: F.pad, nn.ZeroPad2d and similar.)

    >>> ex.evaluate(ex.pad(np.array([1.0, 2.0, 3.0]), (1, 1), mode="reflect"))
    array([2., 1., 2., 3., 2.])
    >>> ex.evaluate(ex.pad(np.array([1.0, 2.0, 3.0]), (-1, 1)))
    array([2., 3., 0.])
    """
    (x,) = as_operands((x,))
    result = padded(x, pad_width, mode, constant_values)
    return Pad(((0, 0),) * x.ndim)(x) if result is x else result


def padded(x: Expr, pad_width: Any, mode: str = "constant", constant_values: Number = 0) -> Expr:
    """Pad ``x``; return it unchanged if all widths are 0."""
    widths = _widths(pad_width, x.ndim)
    if mode not in MODES:
        raise OperandError(
            f"pad: mode {mode!r}", rule=f"the mode must be one of {', '.join(MODES)}", fix=f"mode={MODES[0]!r}"
        )
    kept = [
        slice(max(0, -before), size - max(0, -after)) for size, (before, after) in zip(x.shape, widths, strict=True)
    ]
    if any(part.stop < part.start for part in kept):
        raise OperandError(
            f"pad of {x.type} by the widths {widths}",
            rule="negative padding must not exceed the axis length",
            fix="remove elements by slicing: x[:, 2:]",
        )
    y = part_of(x, tuple(kept))
    added = tuple([(max(0, before), max(0, after)) for before, after in widths])
    if mode == "constant" and any(map(any, added)):
        return Pad(added, constant_values)(y)
    for axis, sides in enumerate(added):
        y = _extended(y, axis, sides, mode)
    return y


def _extended(x: Expr, axis: int, sides: tuple[int, int], mode: str) -> Expr:
    """Extend ``x`` at both ends of ``axis`` with its own elements; ``sides`` are the numbers of elements to add."""
    (before, after), size = sides, x.shape[axis]
    if not before and not after:
        return x
    # number of elements that can be added: for reflect, all but the outermost; for edge, any number if there is an
    # element to repeat
    available = {"reflect": size - 1, "wrap": size, "edge": max(sides) if size else 0}[mode]
    if max(sides) > available:
        raise OperandError(
            f"pad: mode {mode} with {before} before and {after} after axis {axis} of {x.type}",
            rule=f"this mode must add at most {max(available, 0)} elements at each end",
            fix="a smaller pad_width, or mode='constant'",
        )

    def part(start: int, stop: int, step: int = 1) -> Expr:
        spans: list[Any] = [(0, n, 1) for n in x.shape]
        spans[axis] = (start, stop, step)
        return Slice(tuple(spans))(x)

    def repeated(index: int, count: int) -> Expr:
        return broadcast_to(part(index, index + 1), (*x.shape[:axis], count, *x.shape[axis + 1 :]))

    pieces = [x]
    if before:
        first = {
            "reflect": lambda: part(before, 0, -1),
            "wrap": lambda: part(size - before, size),
            "edge": lambda: repeated(0, before),
        }
        pieces.insert(0, first[mode]())
    if after:
        last = {
            "reflect": lambda: part(size - 2, size - 2 - after, -1),
            "wrap": lambda: part(0, after),
            "edge": lambda: repeated(size - 1, after),
        }
        pieces.append(last[mode]())
    return Concatenate(axis)(*pieces)


def _is_representable(dtype: np.dtype[Any], value: Number) -> bool:
    """Return whether ``dtype`` can represent ``value``, possibly rounded."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        # accept integers in the dtype's range; NaN and ∞ fail the comparisons
        return isinstance(value, (int, float)) and value == value // 1 and limits.min <= value <= limits.max
    if dtype.kind == "b":
        return value in (0, 1)
    return dtype.kind == "c" or not isinstance(value, complex)


def _widths(pad_width: Any, rank: int) -> Widths:
    items = pad_width if isinstance(pad_width, (tuple, list)) else ((pad_width, pad_width),)
    if not any(isinstance(item, (tuple, list)) for item in items):
        items = (items,)
    pairs = [tuple([as_integer(n, "pad: a width") for n in item]) for item in items if isinstance(item, (tuple, list))]
    # as in NumPy, one pair applies to every axis
    if len(pairs) == 1:
        pairs *= rank
    if len(pairs) != rank or len(items) not in (1, rank) or any(len(sides) != 2 for sides in pairs):
        raise OperandError(
            f"pad: pad_width {pad_width!r} for {rank} axes",
            rule="pad_width must be one number, one pair, or a pair (before, after) for each axis",
            fix=f"pad_width=[{', '.join(['(1, 1)'] * rank)}]",
        )
    return tuple([(before, after) for before, after in pairs])
