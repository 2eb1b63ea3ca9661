"""Slicing: indices and sizes at their limits, and what is known when a net is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

import explorer as ex
from explorer.net.operators.known_inputs import is_known
from tests.formats.onnx.models import FLOAT, model, node, opened, result

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def findings(folder: Path, made: NodeProto, **constants: Any) -> str:
    """Return the problems of a net of one node with input x of shape 3×4."""
    held = {name: np.asarray(value) for name, value in constants.items()}
    return "\n".join(opened(model([made], {"x": (FLOAT, [3, 4])}, [made.output[0]], held), folder).check())


@pytest.mark.parametrize("index", [-3, -1, 0, 2])
@pytest.mark.parametrize("operator", ["Gather", "GatherElements", "GatherND"])
def test_indices_may_count_from_both_ends_of_an_axis(operator: str, index: int, tmp_path: Path) -> None:
    """The first index out of range at either end is an error when the net is built."""
    shape = {"Gather": (1,), "GatherElements": (1, 4), "GatherND": (1, 1)}[operator]
    step = node(operator, ["x", "i"], ["y"])
    np.testing.assert_array_equal(result(tmp_path, step, X, np.full(shape, index, np.int64)), X[[index]])
    for beyond in (-4, 3):
        assert "an index must be in -3 … 2" in findings(tmp_path, step, i=np.full(shape, beyond, np.int64))


@pytest.mark.parametrize("known", [True, False])
def test_gather_elements_reads_only_where_there_are_indices(known: bool, tmp_path: Path) -> None:
    """Indices are not broadcast along other axes, which may be longer than the indices."""
    for axis, shape in ((0, (2, 1)), (0, (5, 3)), (1, (1, 6)), (1, (2, 4))):
        i = np.random.default_rng(1).integers(-X.shape[axis], X.shape[axis], shape)
        own = X[: shape[0] if axis else None, : None if axis else shape[1]]
        operator = node("GatherElements", ["x", "i"], ["y"], axis=axis)
        value = result(tmp_path, operator, X, i, known=known)
        np.testing.assert_array_equal(value, np.take_along_axis(own, i % X.shape[axis], axis))
    assert "indices must not be longer than data" in findings(
        tmp_path, node("GatherElements", ["x", "i"], ["y"]), i=np.zeros((1, 5), int)
    )


def test_rows_of_indices_select_elements_of_axes_of_different_lengths(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    i = np.array([[1, 2], [0, -1], [-2, 1]])
    np.testing.assert_array_equal(result(tmp_path, node("GatherND", ["x", "i"], ["y"]), x, i), x[tuple(i.T)])


@pytest.mark.parametrize(
    ("start", "end", "step", "expected"),
    [
        (-1, -100, -1, slice(None, None, -1)),
        (2, -(2**63), -1, slice(None, None, -1)),
        (2, -4, -2, slice(None, None, -2)),
        (2, 0, -1, slice(2, 0, -1)),
        (0, 2**63 - 1, 2, slice(None, None, 2)),
        (-100, 2, 1, slice(None, 2)),
        (-(2**63), 2**63 - 1, 1, slice(None)),
        (2, 1, 1, slice(0, 0)),
        (-100, -(2**63), -1, slice(0, None, -1)),
        (-4, -100, -2, slice(0, None, -1)),
        (-100, 1, -1, slice(0, 0)),
    ],
)
def test_ranges_may_exceed_both_ends(start: int, end: int, step: int, expected: slice, tmp_path: Path) -> None:
    """Bounds out of range are clipped, also for negative steps, whose end before the first row has no index."""
    bounds = [np.array([number]) for number in (start, end, 0, step)]
    operator = node("Slice", ["x", "s", "e", "a", "t"], ["y"])
    np.testing.assert_array_equal(result(tmp_path, operator, X, *bounds), X[expected])


def test_an_axis_is_split_unevenly_and_completely(tmp_path: Path) -> None:
    """The last of equal parts is smaller; given sizes must add up to the axis and not be negative."""
    x = np.arange(7, dtype=np.float32)
    parts = result(tmp_path, node("Split", ["x"], ["a", "b", "c"], num_outputs=3), x)
    assert [part.tolist() for part in parts.values()] == [[0, 1, 2], [3, 4, 5], [6]]
    sized = node("Split", ["x", "s"], ["a", "b"], axis=0)
    assert [len(part) for part in result(tmp_path, sized, x, np.array([7, 0])).values()] == [7, 0]
    for sizes in ([1, 1], [2, 2], [4, -1]):
        assert "the sizes must add up to 3" in findings(tmp_path, sized, s=np.array(sizes))


def test_padding_widths_list_all_starts_before_all_ends(tmp_path: Path) -> None:
    operator = node("Pad", ["x", "p"], ["y"])
    np.testing.assert_array_equal(result(tmp_path, operator, X, np.array([1, 0, 2, 3])), np.pad(X, [(1, 2), (0, 3)]))


def test_a_negative_index_counts_from_the_end_and_one_out_of_range_selects_nothing(tmp_path: Path) -> None:
    i = np.array([0, -1, 2, 3, -3, -4], np.int64)
    operator = node("OneHot", ["i", "d", "v"], ["y"])
    outcome = result(tmp_path, operator, i, np.array(3), np.array([5, 7], np.float32))
    np.testing.assert_array_equal(outcome, [[7, 5, 5], [5, 5, 7], [5, 5, 7], [5, 5, 5], [7, 5, 5], [5, 5, 5]])
    assert result(tmp_path, operator, i, np.array(3.0), np.array([5, 7], np.float32)).shape == (6, 3)
    narrow = result(tmp_path, operator, np.uint8([5, 44]), np.array(300), np.array([0, 1], np.float32))
    np.testing.assert_array_equal(narrow.nonzero(), [[0, 1], [5, 44]])
    fractions = result(tmp_path, operator, np.float32([1.9, -0.5, 7]), np.array(3), np.array([5, 7], np.float32))
    np.testing.assert_array_equal(fractions, [[5, 7, 5], [7, 5, 5], [5, 5, 5]])
    for depth in (2.5, 0):
        assert "depth" in findings(tmp_path, node("OneHot", ["x", "d", "v"], ["y"]), d=depth, v=np.float32([5, 7]))


@pytest.mark.spec("I-9")
def test_a_shape_is_known_through_operators_with_several_outputs(tmp_path: Path) -> None:
    """Everything computed only from shapes is known when the net is built, including parts of a split shape."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Split", ["s"], ["a", "b"], num_outputs=2),
        node("Concat", ["b", "a"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    net = opened(model(nodes, {"x": (FLOAT, [3, 4])}, ["y"]), tmp_path)
    np.testing.assert_array_equal(net.run(X), X.reshape(4, 3))


def test_only_small_values_are_known() -> None:
    """A large constant is a weight, which is not used to compute shapes."""
    assert is_known(ex.tensor(np.zeros(1024)))
    assert not is_known(ex.tensor(np.zeros(1025)))
    assert not is_known(ex.tensor(np.zeros(2)) + 1.0)
