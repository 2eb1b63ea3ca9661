"""Max pooling by rows and then by columns, against windows computed one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from explorer.core.ir.tiles import Tile
from explorer.core.types.tensor_type import Array
from explorer.ops.nn.kernels.window import Padding, Pair
from explorer.ops.nn.pooling import MaxPool2d

pytestmark = pytest.mark.spec("I-5")
WINDOWS: dict[str, tuple[Pair, Pair, Padding, Pair, bool]] = {
    "5×5": ((5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), False),
    "dilated": ((3, 4), (1, 2), ((2, 1), (0, 3)), (2, 2), False),
    "steps, ceil": ((4, 3), (2, 3), ((0, 2), (1, 1)), (1, 1), True),
    "a row": ((1, 7), (1, 1), ((0, 0), (3, 3)), (1, 1), False),
    "far apart": ((4, 4), (7, 7), ((0, 0), (0, 0)), (1, 1), False),
}


def by_window(operation: MaxPool2d, x: Array, shape: tuple[int, ...]) -> Array:
    """Return the largest pixel of each window with a loop over windows and their pixels."""
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = np.full(shape, least, x.dtype)
    window = operation.window
    for row, column in itertools.product(range(shape[2]), range(shape[3])):
        for tap in operation.taps:
            r, c = [
                place * step - sides[0] + gap * offset
                for place, step, sides, gap, offset in zip(
                    (row, column), window.strides, window.padding, window.dilation, tap, strict=True
                )
            ]
            if 0 <= r < x.shape[2] and 0 <= c < x.shape[3]:
                np.maximum(y[:, :, row, column], x[:, :, r, c], out=y[:, :, row, column])
    return y


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("last", [False, True], ids=["channel by channel", "pixel by pixel"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_every_window_returns_its_largest_pixel(
    window: tuple[Pair, Pair, Padding, Pair, bool], last: bool, dtype: str
) -> None:
    """Padding is ignored, NaN wins, and tiles give the whole result in any order."""
    random = np.random.default_rng(3)
    x = (100 * random.normal(size=(2, 64, 40, 33))).astype(dtype)
    if dtype == "float32":
        x[0, 0, ::9, ::7], x[1, 1, 20, 20] = np.nan, -np.inf
    operation = MaxPool2d(*window)
    rows, across = operation.window.output(*x.shape[2:])
    shape = (2, 64, rows, across)
    out = np.empty(shape, dtype)
    if last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        out = np.empty((2, rows, across, 64), dtype).transpose(0, 3, 1, 2)
    tiles: list[Tile] = operation.tiles(out, None, x)
    for tile in reversed(tiles):
        tile.compute()
    np.testing.assert_array_equal(out, by_window(operation, x, shape))


def test_a_large_window_is_computed_by_rows_and_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """5×5 windows are separated, but 2×2 windows with stride 2 are not."""
    calls: list[MaxPool2d] = []
    gather = MaxPool2d.gather
    monkeypatch.setattr(MaxPool2d, "gather", lambda self, *arguments: calls.append(self) or gather(self, *arguments))
    x = np.ones((1, 4, 20, 20), "float32")
    large, small = MaxPool2d((5, 5), (1, 1)), MaxPool2d((2, 2), (2, 2))
    large.kernel(np.empty((1, 4, 16, 16), "float32"), x)
    small.kernel(np.empty((1, 4, 10, 10), "float32"), x)
    assert calls == [small]
