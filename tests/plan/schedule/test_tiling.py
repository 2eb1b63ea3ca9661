"""Tiling: the blocks in which a reduction reads its operand, determined only by shapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.plan.schedule.tiling import PIXEL_BY_PIXEL, Tiling, boxes, halved, tiling_of

shapes = st.lists(st.integers(0, 9), max_size=5).map(tuple)


@st.composite
def cut(draw: st.DrawFn) -> tuple[Tiling | None, int, bool]:
    """Draw a tiling of an array over some of its axes in any memory order, with the request."""
    shape = draw(shapes)
    axes = tuple(axis for axis in range(len(shape)) if draw(st.booleans()))
    order = tuple(draw(st.permutations(range(len(shape)))))
    most, in_parts = draw(st.integers(16, 200)), draw(st.booleans())
    return tiling_of(shape, axes, most, in_parts, order), most, in_parts


@pytest.mark.spec("P-6")
@given(cut())
def test_blocks_cover_every_element_once_and_keep_required_rows_whole(
    given: tuple[Tiling | None, int, bool],
) -> None:
    """For any shape, axes and memory order, each element is in one block, and its value belongs to its row."""
    result, most, in_parts = given
    if result is None:
        assert not in_parts
        return
    assert in_parts or not result.in_parts
    met = np.zeros(result.shape, int)
    if result.halvings:
        rows = math.prod([size for axis, size in enumerate(result.shape) if axis not in result.run])
        length = math.prod([result.shape[axis] for axis in result.run])
        assert set(result.run) <= set(result.axes)
        assert max(stop - start for start, stop in halved(length, result.halvings)) == result.elements <= most
        assert result.blocks == rows << result.halvings == math.prod(result.parts)
        return
    values = np.zeros(result.parts, int)
    for index, place in result.indices():
        assert met[index].size <= result.elements
        met[index] += 1
        values[place] += 1
        for axis in result.axes:
            assert values[place].shape[axis] == 1
    assert (met == 1).all()
    assert (values == 1).all()
    assert len([*result.indices()]) == result.blocks


@pytest.mark.spec("P-6")
@pytest.mark.parametrize(
    ("shape", "axes", "kind"),
    [
        ((1 << 20,), (0,), "halved"),
        ((512, 4096), (0, 1), "halved"),
        ((3, 1 << 20), (1,), "halved"),
        ((2, 3, 1 << 20), (0, 2), "halved"),
        ((4096, 512), (1,), "whole"),
        ((8, 1 << 20), (0,), "whole"),
        ((64, 8, 4096), (1,), "whole"),
        ((1 << 20, 3), (0,), "parts"),
        ((2048, 2048), (0,), "parts"),
        ((64, 200, 300), (0, 2), "whole"),
        ((640, 200, 300), (0, 2), "parts"),
        ((100, 100), (0, 1), "one"),
    ],
)
def test_rows_stay_whole_where_possible(shape: tuple[int, ...], axes: tuple[int, ...], kind: str) -> None:
    """Rows are split if one does not fit into a block, or if blocks of whole rows would be scattered in memory."""
    result = tiling_of(shape, axes, 1 << 18)
    assert result is not None
    assert kind == (
        "one" if result.blocks == 1 else "halved" if result.halvings else "parts" if result.in_parts else "whole"
    )
    assert result.elements <= 1 << 18
    assert math.prod(result.parts) * 32 <= math.prod(shape) or not result.in_parts
    whole = tiling_of(shape, axes, 1 << 18, in_parts=False)
    if math.prod([shape[axis] for axis in axes]) > 1 << 18:
        assert whole is None
    elif kind in ("one", "whole"):
        assert whole is not None
        assert not whole.in_parts


def test_images_are_partitioned_by_layout() -> None:
    """A mean over pixels uses partial rows for channels-last images, and otherwise whole rows."""
    rows = tiling_of((2, 64, 100, 100), (2, 3), 1 << 18)
    parts = tiling_of((2, 64, 100, 100), (2, 3), 1 << 18, order=PIXEL_BY_PIXEL)
    assert rows is not None
    assert parts is not None
    assert (rows.in_parts, parts.in_parts) == (False, True)
    assert parts.counts[1] == 1


def test_lengths_that_no_memory_could_store_are_not_partitioned() -> None:
    """A file may declare them."""
    assert tiling_of((1 << 40,), (0,), 1 << 18) is None
    assert tiling_of((1 << 40, 2), (1,), 1 << 18) is None
    assert tiling_of((2, 1 << 40), (0,), 1 << 18) is None


@pytest.mark.spec("P-6")
@given(shapes, st.data())
def test_boxes_are_the_elements_between_two_positions(shape: tuple[int, ...], data: st.DataObject) -> None:
    """A range of an array's elements is split into few boxes, in order and without repetition."""
    size = math.prod(shape)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    if start == stop:
        return
    numbers = np.arange(size).reshape(shape)
    places = boxes(shape, start, stop)
    assert [number for box in places for number in numbers[box].ravel()] == [*range(start, stop)]
    assert len(places) <= max(1, 2 * len(shape) - 1)


@pytest.mark.spec("P-6")
@given(st.integers(2000, 30_000), st.integers(0, 3), st.sampled_from(["float32", "float64"]), st.integers(0, 99))
def test_a_run_is_halved_where_numpy_halves_it(length: int, halvings: int, dtype: str, seed: int) -> None:
    """Sums of the parts, added in pairs, equal NumPy's sum of the whole to the last bit."""
    x = np.random.default_rng(seed).normal(size=length).astype(dtype)
    parts = halved(length, halvings)
    sums = np.array([np.add.reduce(x[start:stop]) for start, stop in parts])
    while len(sums) > 1:
        sums = sums[0::2] + sums[1::2]
    assert (parts[0][0], parts[-1][1], len(parts)) == (0, length, 1 << halvings)
    assert sums[0] == np.add.reduce(x)
