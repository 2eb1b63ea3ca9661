"""ONNX translations of torch's pooling functions that torch's exporter rejects or translates wrongly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.formats.torch_functions import constant, operators


def translations(torch: Any) -> dict[Any, Callable[..., Any]]:
    """Return the translations, keyed by torch overload."""
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
        """Translate avg_pool; ``divisor_override`` replaces the window size as the divisor."""
        op = operators()
        sizes, borders = _each_axis(kernel_size, axes), _each_axis(padding, axes)
        if divisor_override is not None and ceil_mode:
            raise ValueError("a pooling with divisor_override must have ceil_mode=False")
        is_single = len(self.shape) == axes + 1
        y = op.AveragePool(
            op.Unsqueeze(self, constant([0])) if is_single else self,
            kernel_shape=sizes,
            strides=_each_axis(stride, axes) or sizes,
            pads=[*borders, *borders],
            ceil_mode=int(ceil_mode),
            count_include_pad=int(count_include_pad or divisor_override is not None),
        )
        if divisor_override is not None:
            y = op.Mul(y, op.CastLike(constant(np.float64(math.prod(sizes) / divisor_override)), y))
        return op.Squeeze(y, constant([0])) if is_single else y

    return average


def _each_axis(value: Sequence[int] | int, axes: int) -> list[int]:
    """Return one number for each axis; a single number ``value`` is repeated."""
    numbers = [value] if isinstance(value, int) else [*value]
    return numbers * axes if len(numbers) == 1 else numbers


def _windows(shape: Sequence[Any], counts: Sequence[int]) -> tuple[Any, Any]:
    """Return the flat indices that each window covers, (windows, elements), and a mask of the valid indices.

    ``counts`` is the number of windows along each axis. The windows cover the image evenly, so their lengths differ by
    at most one. The indices of short windows are padded with the window's first index.
    """
    lengths = [int(length) for length in shape[-len(counts) :]]
    spans = [
        [range(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(lengths, counts, strict=True)
    ]
    flat = np.arange(math.prod(lengths)).reshape(lengths)
    cells = [flat[np.ix_(*[spans[axis][i] for axis, i in enumerate(cell)])].ravel() for cell in np.ndindex(*counts)]
    longest = max(len(cell) for cell in cells)
    indices = np.array([[*cell, *[cell[0]] * (longest - len(cell))] for cell in cells], np.int64)
    return indices, np.array([[i < len(cell) for i in range(longest)] for cell in cells])


def _gathered(x: Any, indices: Any, axes: int) -> Any:
    """Return the elements of each window, (…, windows, elements), and the lengths of the leading axes of ``x``."""
    op = operators()
    front = [int(length) for length in x.shape[:-axes]]
    return op.Gather(op.Reshape(x, constant([*front, -1])), constant(indices), axis=-1), front


def _adaptive_max(self: Any, output_size: Sequence[int]) -> Any:
    op = operators()
    indices, _ = _windows(self.shape, output_size)
    elements, front = _gathered(self, indices, len(output_size))
    shape, last = constant([*front, *output_size]), constant([-1])
    position = op.ArgMax(elements, axis=-1, keepdims=1)
    table = op.Expand(constant(indices), op.Shape(elements))
    index = op.GatherElements(table, position, axis=-1)
    return op.Reshape(op.ReduceMax(elements, last, keepdims=0), shape), op.Reshape(index, shape)


def _adaptive_mean(self: Any, output_size: Sequence[int]) -> Any:
    op = operators()
    indices, is_valid = _windows(self.shape, output_size)
    elements, front = _gathered(self, indices, len(output_size))
    weights = is_valid / is_valid.sum(1, keepdims=True)
    weighted = op.Mul(elements, op.CastLike(constant(weights), elements))
    return op.Reshape(op.ReduceSum(weighted, constant([-1]), keepdims=0), constant([*front, *output_size]))
