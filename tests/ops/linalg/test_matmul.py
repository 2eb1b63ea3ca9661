"""Tiles of matrix products."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.ops.linalg.matmul import Matmul


def _places(rows: int, inner: int, columns: int) -> list[tuple[int, int]]:
    a, b = np.ones((rows, inner), np.float32), np.ones((inner, columns), np.float32)
    out = np.empty((rows, columns), np.float32)
    tiles = Matmul().tiles(out, None, a, b)
    for tile in tiles:
        tile.compute()
    assert (out == inner).all()
    sizes = {tuple(part.stop - part.start for part in tile.place) for tile in tiles}
    assert len(sizes) == 1
    return [*sizes] * len(tiles)


@pytest.mark.parametrize(
    ("product", "tiles", "tile"),
    [
        ((64, 64, 128), 1, (64, 128)),
        # Rows are contiguous, columns of a result are not: more columns than rows are no reason to cut these.
        ((256, 64, 512), 2, (128, 512)),
        ((512, 64, 1024), 8, (128, 512)),
        # A tile of 64 columns would pack all of the left operand again for little arithmetic.
        ((64, 512, 2048), 8, (64, 256)),
        ((128, 1024, 4096), 16, (128, 256)),
        ((512, 1024, 1024), 16, (128, 256)),
        ((16, 64, 64), 1, (16, 64)),
    ],
)
def test_tiles_are_whole_rows_where_there_are_enough(
    product: tuple[int, int, int], tiles: int, tile: tuple[int, int]
) -> None:
    assert _places(*product) == [tile] * tiles
