"""Windows of images as columns, and columns added up to images again, along any number of axes.

Unfold gathers: each element of a column is a place in the padded image. Fold is its adjoint, and adds an image for each
tap of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import Shape, whole
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.manipulation.slicing import SliceScatter

__all__ = ["fold", "unfold"]

Numbers: TypeAlias = "int | tuple[int, ...]"
Sides: TypeAlias = "int | tuple[int | tuple[int, int], ...]"


class _Axis(NamedTuple):
    """Windows along one axis: its length, their number, taps, stride, dilation, and the padding of both sides."""

    length: int
    windows: int
    taps: int
    step: int
    gap: int
    before: int
    after: int


@public
@composition
def unfold(
    x: Any, window: Numbers, strides: Numbers = 1, padding: Sides = 0, dilation: Numbers = 1, policies: Items = ()
) -> Expr:
    """Lay the windows of images (N, C, D₁ …) out as columns: (N, C · taps, windows).

    ``window`` are its lengths; ``strides``, ``padding`` (zeros; a pair for both sides) and ``dilation`` are one number,
    or one for each axis. Raises OperandError for a window that does not fit. (PNNX: nn.Unfold.)

    >>> ex.evaluate(ex.unfold(np.arange(6.0).reshape(1, 1, 2, 3), (2, 2)))
    array([[[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]]])
    """
    (x,) = as_operands((x,))
    axes = _axes("unfold", x.shape[2:], window, strides, padding, dilation)
    claim_constant("places of windows", prod([axis.taps * axis.windows for axis in axes]))
    around = padded(x, ((0, 0), (0, 0), *[(axis.before, axis.after) for axis in axes]))
    # (taps of the first axis, …, windows of the first axis, …): the place of each element in the padded image
    places: Any = np.zeros((1,) * (2 * len(axes)), np.int64)
    for number, (axis, length) in enumerate(zip(axes, around.shape[2:], strict=True)):
        shape = [1] * (2 * len(axes))
        shape[number], shape[number + len(axes)] = axis.taps, axis.windows
        along = np.add.outer(np.arange(axis.taps) * axis.gap, np.arange(axis.windows) * axis.step)
        places = places * length + along.reshape(shape)
    columns = take(reshape(around, (*x.shape[:2], prod(around.shape[2:]))), places.reshape(-1), 2)
    taps = prod([axis.taps for axis in axes])
    return reshape(columns, (x.shape[0], x.shape[1] * taps, places.size // taps))


@public
@composition
@rounded_once
def fold(
    x: Any,
    size: Numbers,
    window: Numbers,
    strides: Numbers = 1,
    padding: Sides = 0,
    dilation: Numbers = 1,
    policies: Items = (),
) -> Expr:
    """Add columns (N, C · taps, windows) up to images (N, C, *size) at the places of their windows.

    The other arguments are those of `unfold`, whose adjoint it is. Raises OperandError for columns of other windows.
    (ONNX: Col2Im; PNNX: nn.Fold.)

    >>> ex.evaluate(ex.fold(np.ones((1, 4, 2)), (2, 3), (2, 2)))
    array([[[[1., 2., 1.],
             [1., 2., 1.]]]])
    """
    (x,) = as_operands((x,))
    lengths = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    axes = _axes(
        "fold", tuple([whole(length, "fold: a length") for length in lengths]), window, strides, padding, dilation
    )
    taps, windows = prod([axis.taps for axis in axes]), prod([axis.windows for axis in axes])
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != windows:
        raise OperandError(
            f"fold of {x.type} for windows of {taps} elements in images of {lengths}",
            rule=f"the columns must be (N, C · {taps}, {windows})",
            fix="the size and the window that the images were unfolded with",
        )
    claim_steps("taps of windows", taps)
    front = (x.shape[0], x.shape[1] // taps)
    around = (*front, *[axis.before + axis.length + axis.after for axis in axes])
    columns = reshape(x, (*front, taps, *[axis.windows for axis in axes]))
    whole_axes = tuple([(0, length, 1) for length in front])

    def spread(number: int, tap: Sequence[int]) -> Expr:
        spans = tuple(
            [
                (place * axis.gap, place * axis.gap + (axis.windows - 1) * axis.step + 1, axis.step)
                for place, axis in zip(tap, axes, strict=True)
            ]
        )
        return SliceScatter((*whole_axes, *spans), around)(columns[:, :, number])

    y = add_n(*[spread(number, tap) for number, tap in enumerate(np.ndindex(*[axis.taps for axis in axes]))])
    return y[(..., *[slice(axis.before, axis.before + axis.length) for axis in axes])]


def _axes(
    function: str, lengths: Shape, window: Numbers, strides: Numbers, padding: Sides, dilation: Numbers
) -> list[_Axis]:
    """Return the windows along each axis; raises OperandError for numbers of which no window can be made."""
    settings = [
        _each(function, name, value, len(lengths))
        for name, value in (("window", window), ("strides", strides), ("dilation", dilation))
    ]
    sides = padding if isinstance(padding, (tuple, list)) else (padding,) * len(lengths)
    pairs = [tuple(side) if isinstance(side, (tuple, list)) else (side, side) for side in sides]
    if len(pairs) != len(lengths) or not all(len(pair) == 2 for pair in pairs):
        raise OperandError(
            f"{function}: padding={padding!r} for {len(lengths)} axes",
            rule="padding must be one number, one for each axis, or a pair for each axis",
            fix="padding=1",
        )
    axes = []
    for length, taps, step, gap, (before, after) in zip(lengths, *settings, pairs, strict=True):
        before, after = (whole(side, f"{function}: padding") for side in (before, after))
        fits = min(taps, step, gap) > 0 and min(before, after) >= 0
        count = (length + before + after - gap * (taps - 1) - 1) // step + 1 if fits else 0
        if count < 1:
            raise OperandError(
                f"an axis of {length} with window={taps}, strides={step}, dilation={gap}, padding={before, after}",
                rule=f"{function}: windows, strides and dilation must be at least 1, padding at least 0, and the "
                "window must fit into the padded image",
                fix="a smaller window, or padding",
            )
        axes.append(_Axis(length, count, taps, step, gap, before, after))
    return axes


def _each(function: str, name: str, value: Numbers, count: int) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(values) != count or not count:
        raise OperandError(
            f"{function}: {name}={value!r} for {count} axes",
            rule="images must have an axis at least, and there must be one number, or one for each axis",
            fix=f"{name}=2",
        )
    return tuple([whole(number, f"{function}: {name}") for number in values])
