"""Poolings of torch that its exporter refuses, or writes without their divisor, by operators of ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.formats.torch_functions import constant, operators


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return for each of these functions the function that writes it."""
    aten = torch.ops.aten
    return {
        aten.avg_pool2d.default: _average(2),
        aten.avg_pool3d.default: _average(3),
        aten.adaptive_max_pool2d.default: _adaptive_max,
        aten.adaptive_max_pool3d.default: _adaptive_max,
        aten._adaptive_avg_pool3d.default: _adaptive_mean,
    }


def _average(axes: int) -> Callable[..., Any]:
    def average(
        self: Any,
        kernel_size: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] | int = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        """Write the means of windows, or their sums divided by a number."""
        op = operators()
        lengths, borders = _each(kernel_size, axes), _each(padding, axes)
        if divisor_override is not None and ceil_mode:
            raise ValueError("a pooling with divisor_override must have ceil_mode=False")
        is_single = len(self.shape) == axes + 1
        y = op.AveragePool(
            op.Unsqueeze(self, constant([0])) if is_single else self,
            kernel_shape=lengths,
            strides=_each(stride, axes) or lengths,
            pads=[*borders, *borders],
            ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad or divisor_override is not None),
        )
        if divisor_override is not None:
            y = op.Mul(y, op.CastLike(constant(np.float64(math.prod(lengths) / divisor_override)), y))
        return op.Squeeze(y, constant([0])) if is_single else y

    return average


def _each(value: Sequence[int] | int, axes: int) -> list[int]:
    """Return a parameter's number for each axis; one number is that of all."""
    numbers = [value] if isinstance(value, int) else [*value]
    return numbers * axes if len(numbers) == 1 else numbers


def _windows(shape: Sequence[Any], counts: Sequence[int]) -> tuple[Any, Any]:
    """Return the places of each window's elements in the image as one row, and which of them are real.

    Windows cover the image evenly, and may differ by one in their length: short ones repeat their first place.
    """
    lengths = [int(length) for length in shape[-len(counts) :]]
    spans = [
        [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(lengths, counts, strict=True)
    ]
    numbers = np.arange(math.prod(lengths)).reshape(lengths)
    cells = [numbers[np.ix_(*[spans[axis][i] for axis, i in enumerate(cell)])].ravel() for cell in np.ndindex(*counts)]
    longest = max(len(cell) for cell in cells)
    places = np.array([[*cell, *[cell[0]] * (longest - len(cell))] for cell in cells], np.int64)
    return places, np.array([[i < len(cell) for i in range(longest)] for cell in cells])


def _gathered(x: Any, places: Any, axes: int) -> Any:
    """Write the elements of each window: axes before the image, windows, elements."""
    op = operators()
    front = [int(length) for length in x.shape[:-axes]]
    return op.Gather(op.Reshape(x, constant([*front, -1])), constant(places), axis=-1), front


def _adaptive_max(self: Any, output_size: Sequence[int]) -> Any:
    """Write the largest elements of windows that cover an image evenly, and their places."""
    op = operators()
    places, _ = _windows(self.shape, output_size)
    elements, front = _gathered(self, places, len(output_size))
    shape, last = constant([*front, *output_size]), constant([-1])
    chosen = op.ArgMax(elements, axis=-1, keepdims=1)
    table = op.Expand(constant(places), op.Shape(elements))
    place = op.GatherElements(table, chosen, axis=-1)
    return op.Reshape(op.ReduceMax(elements, last, keepdims=0), shape), op.Reshape(place, shape)


def _adaptive_mean(self: Any, output_size: Sequence[int]) -> Any:
    """Write the means of windows that cover an image evenly."""
    op = operators()
    places, is_real = _windows(self.shape, output_size)
    elements, front = _gathered(self, places, len(output_size))
    shares = is_real / is_real.sum(1, keepdims=True)
    weighted = op.Mul(elements, op.CastLike(constant(shares), elements))
    return op.Reshape(op.ReduceSum(weighted, constant([-1]), keepdims=0), constant([*front, *output_size]))
