"""Interpolation of images at arbitrary points, for grids and for the taps of deformable convolutions.

An image is converted to a table with one row of channels per element. For each point, the rows of the elements around
it are gathered, multiplied by weights and added. The plan fuses these operations, and their gradients and batching
rules apply. Images are padded with a ring of elements, so points outside need no special cases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.policy_operations import composition
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant, claim_steps
from explorer.core.policy import Items
from explorer.core.registry import public
from explorer.core.types.tensor_type import as_integer
from explorer.ops.accumulation_dtype import rounded_once
from explorer.ops.base import float_dtype
from explorer.ops.elementwise.arithmetic import add, maximum, minimum, multiply, where
from explorer.ops.elementwise.rounding_and_bits import floor, remainder, round_half_even
from explorer.ops.linalg.matmul import matmul, swap
from explorer.ops.manipulation.gather import take
from explorer.ops.manipulation.padding import pad
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.ops.manipulation.reshape import cast, expand_dims, reshape
from explorer.ops.nn.resize import cubic_weights

__all__ = ["affine_grid", "grid_sample"]

METHODS = ("linear", "nearest", "cubic")
PADDINGS = ("zeros", "border", "reflection")
_CUBIC = -0.75
"""coefficient of the cubic convolution, as in PyTorch and ONNX's GridSample"""
_REACH = {"linear": 1, "nearest": 1, "cubic": 2}
"""maximum distance from the last element at or below a point to the elements that the point reads"""


@public
@composition
@rounded_once
def grid_sample(
    x: Any,
    grid: Any,
    method: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
    policies: Items = (),
) -> Expr:
    """Sample images ``x`` (N, C, D₁ … Dᵣ) at the points in ``grid`` (N, P₁ …, r); the result is (N, C, P₁ …).

    A point has one coordinate for each axis, in reverse order of the axes. The coordinates −1 and 1 are the outer edges
    of the first and the last element, or their centres if ``align_corners`` is true. Methods are "linear", "nearest"
    (half to even) and "cubic". ``padding`` determines the values outside the image: zeros ("zeros"), the nearest
    element ("border") or the mirrored image ("reflection"). Raises OperandError if the shapes do not match. (ONNX:
    GridSample; PNNX: F.grid_sample.)

    >>> image = np.array([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> ex.evaluate(ex.grid_sample(image, np.array([[[[0.0, 0.0]], [[-0.5, 0.5]]]])))
    array([[[[1.5],
             [2. ]]]])
    """
    x, grid = as_operands((x, grid))
    rank = x.ndim - 2
    problem = ""
    if rank < 1 or grid.ndim < 2 or grid.shape[-1] != rank or grid.shape[0] != x.shape[0]:
        problem = "images must be (N, C, D₁ … Dᵣ) and a grid (N, P₁ …, r), with one coordinate for each of r axes"
    elif 0 in x.shape[2:]:
        problem = "images must have at least one element"
    elif grid.dtype.kind != "f":
        problem = "the coordinates of a grid must be floating"
    if problem:
        raise OperandError(
            f"grid_sample of {x.type} at {grid.type}", rule=problem, fix="x (1, 3, 32, 32) and a grid (1, 8, 8, 2)"
        )
    for name, value, choices in (("method", method, METHODS), ("padding", padding, PADDINGS)):
        if value not in choices:
            raise OperandError(
                f"grid_sample: {name}={value!r}",
                rule=f"{name} must be one of {', '.join(choices)}",
                fix=f"{name}={choices[0]!r}",
            )
    points = [grid[..., rank - 1 - axis] for axis in range(rank)]
    positions = [
        (point + 1) * ((length - 1) / 2) if align_corners else ((point + 1) * length - 1) * 0.5
        for point, length in zip(points, x.shape[2:], strict=True)
    ]
    return sampled(x, positions, method, padding, align_corners)


@public
@composition
def affine_grid(matrix: Any, size: int | tuple[int, ...], align_corners: bool = False, policies: Items = ()) -> Expr:
    """Compute the points of affine maps for ``grid_sample``: ``matrix`` (N, r, r + 1) → (N, D₁ … Dᵣ, r).

    ``size`` (D₁ … Dᵣ) contains the axis lengths. Points and ``align_corners`` are as in ``grid_sample``. Raises
    OperandError if the shapes do not match. (ONNX: AffineGrid; PNNX: F.affine_grid.)

    >>> ex.evaluate(ex.affine_grid(np.array([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 2)))
    array([[[[-0.5,  0.5],
             [ 0.5,  0.5]]]])
    """
    (matrix,) = as_operands((matrix,))
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    lengths, rank = [as_integer(length, "affine_grid: a length") for length in sizes], len(sizes)
    if (
        matrix.ndim != 3
        or min(lengths, default=0) < 1
        or rank < 1
        or matrix.shape[1:] != (rank, rank + 1)
        or matrix.dtype.kind != "f"
    ):
        raise OperandError(
            f"affine_grid of {matrix.type} for the size {sizes}",
            rule="the matrices must be floating with shape (N, r, r + 1) for r axes, whose lengths must be at least 1",
            fix="matrices (1, 2, 3) and size=(32, 32)",
        )
    claim_constant("the points of a grid", math.prod(lengths) * (rank + 1), matrix.dtype.itemsize)
    # the point of a single element is at the centre
    ends = [0.0 if length == 1 else 1.0 if align_corners else 1 - 1 / length for length in lengths]
    axes = [np.linspace(-end, end, length) for end, length in zip(ends, lengths, strict=True)]
    points = np.stack([*np.meshgrid(*axes, indexing="ij")[::-1], np.ones(lengths)], -1).reshape(-1, rank + 1)
    grid = matmul(tensor(points.astype(matrix.dtype), device=matrix.device), swap(matrix))
    return reshape(grid, (matrix.shape[0], *lengths, rank))


def sampled(
    x: Expr, positions: Sequence[Expr], method: str = "linear", padding: str = "zeros", align_corners: bool = False
) -> Expr:
    """Sample images ``x`` (N, C, D₁ …) at ``positions``; the result is (N, C, P₁ …).

    ``positions`` has one expression (N, P₁ …) for each axis, in units of elements.
    """
    images, channels = x.shape[:2]
    dtype = x.dtype if method == "nearest" else float_dtype(x.dtype)
    ring = _REACH[method] if padding == "zeros" else 0
    if ring:
        x = pad(x, ((0, 0), (0, 0), *[(ring, ring)] * len(positions)))
    taps = [
        _taps(position, length - 2 * ring, ring, method, padding, align_corners)
        for position, length in zip(positions, x.shape[2:], strict=True)
    ]
    # one row of channels for each element of each image, so that one index reads all channels
    elements = math.prod(x.shape[2:])
    table = reshape(moveaxis(x, 1, -1), (images * elements, channels))
    claim_steps("elements around a point", math.prod([len(along) for along in taps]))
    first_rows = np.arange(images).reshape(-1, *[1] * (positions[0].ndim - 1)) * elements
    first = tensor(first_rows, name="first rows", device=x.device) if images > 1 else 0
    parts = []
    for choice in itertools.product(*taps):
        row: Any = first
        stride = elements
        for tap, length in zip(choice, x.shape[2:], strict=True):
            stride //= length
            row = row + tap.position * stride
        values = take(table, row, axis=0)
        weights = [tap.weight for tap in choice if tap.weight is not None]
        parts.append(values * expand_dims(reduce(multiply, weights), -1) if weights else values)
    return cast(moveaxis(reduce(add, parts), -1, 1), dtype)


class _Tap(NamedTuple):
    """Elements that points read along one axis: indices and weights, where None means that all weights are 1."""

    position: Expr
    weight: Expr | None


def _taps(position: Expr, length: int, ring: int, method: str, padding: str, aligned: bool) -> list[_Tap]:
    """Return the taps along an axis of ``length`` elements; the axis has ``ring`` additional elements at each end."""
    if padding != "zeros" and method != "cubic":
        position = _inside(position, length, padding, aligned)
    if method == "nearest":
        return [_Tap(_index(round_half_even(_near(position, length, ring)), length, ring), None)]
    low = floor(position)
    # as in PyTorch, t is NaN for NaN and infinite positions
    t = position - low
    low = _near(low, length, ring)
    weights = [1 - t, t] if method == "linear" else cubic_weights(t, _CUBIC)
    reach = _REACH[method]
    tap_positions = [low + offset if offset else low for offset in range(1 - reach, reach + 1)]
    if method == "cubic" and padding != "zeros":
        # for cubic interpolation, PyTorch and ONNX Runtime move the taps into the image, not the point
        tap_positions = [_inside(tap, length, padding, aligned) for tap in tap_positions]
    return [_Tap(_index(tap, length, ring), weight) for tap, weight in zip(tap_positions, weights, strict=True)]


def _near(position: Expr, length: int, ring: int) -> Expr:
    """Limit positions to one element beyond the ring, where sampled values are still zero."""
    return minimum(maximum(position, -ring - 1), length + ring) if ring else position


def _index(position: Expr, length: int, ring: int) -> Expr:
    """Convert integer-valued positions to indices into an axis with its ring."""
    return minimum(maximum(cast(position, "int64"), -ring), length - 1 + ring) + ring


def _inside(position: Expr, length: int, padding: str, aligned: bool) -> Expr:
    """Move positions into an axis: clip them to its ends, or reflect them at its ends until they are inside."""
    if padding == "reflection":
        # if ``aligned`` is true, reflect at the centres of the outermost elements, otherwise at their outer edges
        low, span = (0.0, length - 1.0) if aligned else (-0.5, float(length))
        distance = remainder(position - low, 2 * span) if span else position * 0
        position = minimum(distance, 2 * span - distance) + low
    # as in PyTorch, NaN becomes position 0, and the gradient at the ends is 0
    position = where(position > 0, position, 0)
    return where(position < length - 1, position, length - 1)
