"""Unfolding of image windows into columns, and folding of columns into images, along any number of axes.

``unfold`` gathers the elements of each column from the padded image. ``fold``, its adjoint, adds one image for each tap
of the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import Shape, as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.elementwise.arithmetic import add_n
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import padded
from explorer.ops.manipulation.reshape import reshape
from explorer.ops.manipulation.slicing import SliceScatter
from explorer.ops.nn.kernels.window import window_of

__all__ = ["fold", "unfold"]

Numbers: TypeAlias = "int | tuple[int, ...]"
Sides: TypeAlias = "int | tuple[int | tuple[int, int], ...]"


class _Axis(NamedTuple):
    """Windows along one axis: axis length, number of windows, taps, stride, dilation, and padding at both ends."""

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
    """Arrange the windows of images ``x`` (N, C, D₁ …) as columns: (N, C · taps, windows).

    ``window`` is the size of the window. ``window``, ``strides``, ``padding`` and ``dilation`` are one number for all
    axes or one number for each axis. ``padding`` (with zeros) may also be one pair (before, after) for each axis.
    Raises OperandError if the window is larger than the padded image. (PNNX: nn.Unfold.)

    >>> ex.evaluate(ex.unfold(np.arange(6.0).reshape(1, 1, 2, 3), (2, 2)))
    array([[[0., 1.],
            [1., 2.],
            [3., 4.],
            [4., 5.]]])
    """
    (x,) = as_operands((x,))
    axes = _axes("unfold", x.shape[2:], window, strides, padding, dilation)
    claim_constant("indices of windows", prod([axis.taps * axis.windows for axis in axes]))
    padded_x = padded(x, ((0, 0), (0, 0), *[(axis.before, axis.after) for axis in axes]))
    # (taps of each axis …, windows of each axis …): the flat index of each element in the padded image
    indices: Any = np.zeros((1,) * (2 * len(axes)), np.int64)
    for number, (axis, length) in enumerate(zip(axes, padded_x.shape[2:], strict=True)):
        shape = [1] * (2 * len(axes))
        shape[number], shape[number + len(axes)] = axis.taps, axis.windows
        along = np.add.outer(np.arange(axis.taps) * axis.gap, np.arange(axis.windows) * axis.step)
        indices = indices * length + along.reshape(shape)
    columns = take(reshape(padded_x, (*x.shape[:2], prod(padded_x.shape[2:]))), indices.reshape(-1), 2)
    taps = prod([axis.taps for axis in axes])
    return reshape(columns, (x.shape[0], x.shape[1] * taps, indices.size // taps))


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
    """Add columns (N, C · taps, windows) to images (N, C, *size) at the positions of their windows.

    This is the adjoint of ``unfold`` and has the same options. Raises OperandError if the columns do not match the
    windows. (ONNX: Col2Im; PNNX: nn.Fold.)

    >>> ex.evaluate(ex.fold(np.ones((1, 4, 2)), (2, 3), (2, 2)))
    array([[[[1., 2., 1.],
             [1., 2., 1.]]]])
    """
    (x,) = as_operands((x,))
    lengths = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    axes = _axes(
        "fold", tuple([as_integer(length, "fold: a length") for length in lengths]), window, strides, padding, dilation
    )
    taps, windows = prod([axis.taps for axis in axes]), prod([axis.windows for axis in axes])
    if x.ndim != 3 or x.shape[1] % taps or x.shape[2] != windows:
        raise OperandError(
            f"fold of {x.type} for windows of {taps} elements in images of {lengths}",
            rule=f"the columns must be (N, C · {taps}, {windows})",
            fix="use the size and the window with which the images were unfolded",
        )
    claim_steps("taps of windows", taps)
    front = (x.shape[0], x.shape[1] // taps)
    padded_x = (*front, *[axis.before + axis.length + axis.after for axis in axes])
    columns = reshape(x, (*front, taps, *[axis.windows for axis in axes]))
    whole_axes = tuple([(0, length, 1) for length in front])

    def scattered(number: int, tap: Sequence[int]) -> Expr:
        spans = tuple(
            [
                (tap_index * axis.gap, tap_index * axis.gap + (axis.windows - 1) * axis.step + 1, axis.step)
                for tap_index, axis in zip(tap, axes, strict=True)
            ]
        )
        return SliceScatter((*whole_axes, *spans), padded_x)(columns[:, :, number])

    y = add_n(*[scattered(number, tap) for number, tap in enumerate(np.ndindex(*[axis.taps for axis in axes]))])
    return y[(..., *[slice(axis.before, axis.before + axis.length) for axis in axes])]


def _axes(
    function: str, lengths: Shape, window: Numbers, strides: Numbers, padding: Sides, dilation: Numbers
) -> list[_Axis]:
    """Return the windows along each axis; raise OperandError if the options give no valid window."""
    if not lengths:
        raise OperandError(
            f"{function} of an operand without axes after N and C",
            rule="x must be (N, C, …) with at least one more axis",
            fix="x.reshape(1, 1, -1) for one sequence",
        )
    full_window = window_of(window, len(lengths), strides, padding, dilation)
    problem = full_window.problem()
    counts = (0,) if problem else full_window.output(*lengths)
    if min(counts) < 1:
        raise OperandError(
            f"{function} along axes of {lengths} with window={full_window.size}, strides={full_window.strides}, "
            f"dilation={full_window.dilation}, padding={full_window.padding}",
            rule=problem or "the window must fit into the padded image",
            fix="a smaller window, or padding",
        )
    return [
        _Axis(length, count, taps, step, gap, before, after)
        for length, count, taps, step, (before, after), gap in zip(lengths, counts, *full_window[:4], strict=True)
    ]
