"""The largest outputs of a row as probabilities with labels: all dtypes, ties, and empty rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import explorer as ex
from explorer.cli.support.top_k import check_labels, labels_of, probabilities, ranking

Array = np.ndarray[Any, np.dtype[Any]]


def places(lines: list[str]) -> list[list[int]]:
    """Return the indices that each line lists."""
    return [[int(word.split()[0]) for word in line.partition(": ")[2].split("  ")] for line in lines]


@pytest.mark.spec("I-11")
@given(
    st.sampled_from(["bool", "int8", "int64", "uint8", "uint64", "float16", "float32"]).flatmap(
        lambda dtype: arrays.arrays(
            dtype,
            arrays.array_shapes(min_dims=2, max_dims=2, max_side=5),
            elements=None if dtype[0] != "f" else st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, np.inf]),
        )
    )
)
def test_the_largest_come_first_and_the_first_of_equals(array: Array) -> None:
    """A row is ranked by value over the dtype's whole range; equal elements keep their order."""
    expected = [sorted(range(len(row)), key=lambda place: (-row[place], place)) for row in array.tolist()]
    assert places(ranking(array, array.shape[1])) == expected


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8", "uint64"])
def test_both_limits_of_a_dtype_are_ranked_correctly(dtype: str) -> None:
    """The minimum is last and the maximum first, although negation would overflow."""
    info = np.iinfo(dtype)
    assert places(ranking(np.array([[info.min, 1, info.max, 2, info.max]], dtype), 5)) == [[2, 4, 3, 1, 0]]


def test_nan_is_last_and_complex_numbers_are_ranked_too() -> None:
    assert places(ranking(np.array([[np.nan, 1.0, 2.0]]), 3)) == [[2, 1, 0]]
    assert ranking(np.array([[1 + 2j, 3]], np.complex64), 1) == ["  0: 1 3+0j"]


def test_rows_of_any_rank_and_empty_rows() -> None:
    """Each row of the last axis has a line; an empty row has an empty one, and a scalar is one row."""
    assert places(ranking(np.arange(12.0).reshape(2, 2, 3), 1)) == [[2]] * 4
    assert ranking(np.array(3.0), 5) == ["  0: 0 3"]
    assert ranking(np.zeros((2, 0)), 5) == ["  0: ", "  1: "]
    assert ranking(np.zeros((0, 3)), 5) == []


def test_rows_are_named_if_there_are_as_many_names() -> None:
    array = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert ranking(array, 1, ["a\x1b", "b"], ["p\x1b.png", "q.png"]) == ["  p\\x1b.png: b 1", "  q.png: a\\x1b 1"]
    assert ranking(array, 1, (), ["p.png"]) == ["  0: 1 1", "  1: 0 1"]


@pytest.mark.spec("I-11")
@pytest.mark.parametrize(
    ("rows", "done"),
    [
        ([[0.25, 0.75], [1.0, 0.0]], ""),
        ([[0.25, 0.75], [0.5, 0.75]], "softmax"),  # a single row is not named
        ([[-0.25, 1.25]], "softmax"),  # it sums to one without negative elements
        ([[np.log(0.25), np.log(0.75)]], "exponentials"),
        ([[np.log(0.25), np.log(0.75)], [-1.0, -1.0]], "softmax"),
        ([[1.0, -30.0, -30.0]], "softmax"),
        ([[0.0, -1000.0]], "exponentials"),
    ],
)
def test_rows_are_recognized_as_probabilities_logarithms_or_scores(rows: list[list[float]], done: str) -> None:
    """They are probabilities or logarithms only if every row is; otherwise they are scores."""
    ranks, said = probabilities(np.array(rows, np.float32), "auto")
    assert said.startswith(done)
    assert bool(said) == bool(done)
    np.testing.assert_allclose(ranks.sum(axis=1), 1, rtol=1e-6)


def test_a_positive_score_is_not_a_logarithm_of_a_probability() -> None:
    """Within the tolerance, exp(0.0005) alone would pass for a probability."""
    scores = np.array([[0.0005, -30.0]], np.float32)
    _, said = probabilities(scores, "auto")
    assert said.startswith("softmax")


def test_large_scores_do_not_overflow_and_rows_are_independent() -> None:
    ranks, _ = probabilities(np.array([[1000, 0], [0, 1000]], np.int64), "auto")
    np.testing.assert_allclose(ranks, [[1, 0], [0, 1]])
    ranks, _ = probabilities(np.array([[255, 0]], np.uint8), "yes")
    np.testing.assert_allclose(ranks, [[1, 0]], atol=1e-6)


@pytest.mark.spec("I-11")
@pytest.mark.parametrize("softmax", ["auto", "yes"])
@pytest.mark.parametrize("row", [[np.inf, 1.0, 2.0], [np.nan, 1.0, 2.0], [-np.inf] * 3])
def test_scores_without_probabilities_are_ranked_as_they_are(row: list[float], softmax: str) -> None:
    scores = np.array([row, [1.0, 2.0, 3.0]])
    shown, said = probabilities(scores, softmax)
    assert shown is scores
    assert said.startswith("no softmax")
    shown, said = probabilities(np.array([[-np.inf, 0.0, 3.0]]), softmax)
    assert said.startswith("softmax")
    np.testing.assert_allclose(shown.sum(axis=1), 1)


@pytest.mark.parametrize("array", [np.full((2, 1), 5.0), np.ones(3), np.ones((1, 2, 2)), np.ones((1, 2), bool)])
def test_other_arrays_are_returned_unchanged(array: Array) -> None:
    ranks, said = probabilities(array, "auto")
    assert ranks is array
    assert said == ""


@pytest.mark.spec("I-11")
@pytest.mark.parametrize("count", [9, 11])
def test_there_must_be_a_label_for_each_class(count: int) -> None:
    """Too few labels raise an error, and so do too many, because they belong to another net."""
    labels = [str(number) for number in range(count)]
    with pytest.raises(ex.FileError, match=f"{count} labels for the 10 classes of output 'y'"):
        check_labels(labels, Path("labels.txt"), "y", (None, 10))
    check_labels(labels, Path("labels.txt"), "y", (10, None))
    check_labels(labels, Path("labels.txt"), "y", ())
    check_labels([*labels[:9], "9"], Path("labels.txt"), "y", (None, 10))


def test_labels_are_lines_without_byte_order_mark_and_blanks(tmp_path: Path) -> None:
    """Line endings of other systems are removed, too."""
    (tmp_path / "labels.txt").write_bytes("\ufeffcat\r\n dog \r\n".encode())
    assert labels_of(tmp_path / "labels.txt") == ["cat", "dog"]
