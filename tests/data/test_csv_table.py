"""Tables from CSV files: headers, empty cells, and errors with line numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex


def table(folder: Path, text: str) -> Path:
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.spec("I-17", headline=True)
def test_tables_are_loaded_with_headers_and_empty_cells(tmp_path: Path) -> None:
    """Load a CSV table with its header and empty cells."""
    path = table(tmp_path, 'length,"width, cm"\n1,2.5\n,-4e1\n\n 3 ,\n')
    nan = float("nan")
    result = ex.load_csv(path)
    assert (result.dtype, result.name) == (np.float32, "t")
    np.testing.assert_array_equal(result.array, np.array([[1, 2.5], [nan, -40], [3, nan]], np.float32))
    np.testing.assert_array_equal(ex.load_csv(path, empty=0).array, [[1, 2.5], [0, -40], [3, 0]])
    value = ex.evaluate((ex.load_csv(path, empty=0, dtype=np.float64) + 1).sum())
    assert value == pytest.approx(-27.5)


def test_the_header_can_be_given_explicitly(tmp_path: Path) -> None:
    path = table(tmp_path, "\ufeff1;2\r\n3;4\r\n")
    assert ex.load_csv(path, delimiter=";", dtype=np.int64).array.tolist() == [[1, 2], [3, 4]]
    assert ex.load_csv(path, delimiter=";", header=True).array.tolist() == [[3, 4]]
    with pytest.raises(ex.FileError, match=r"line 1: the cell 'a'"):
        ex.load_csv(table(tmp_path, "a,b\n1,2\n"), header=False)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("1,2\n3\n", {}, "line 2: 1 cell\n  rule: every row must have as many cells as the first: 2"),
        ("1,2\n3,x\n", {}, "line 2: the cell 'x'\n  rule: a cell must be a number of dtype float32"),
        ("1,2\n3,\n", {"dtype": np.int64}, "line 2: an empty cell"),
        ("1\n300\n", {"dtype": np.uint8}, "line 2: the cell '300'"),
        ("1\n2.5\n", {"dtype": np.int64}, "line 2: the cell '2.5'"),
        ("a,b\n", {}, "no row of numbers"),
        ("", {}, "no row of numbers"),
        ("1", {"dtype": str}, "a real dtype"),
        ("1", {"delimiter": ""}, "the delimiter one character"),
    ],
)
def test_errors_contain_their_line(tmp_path: Path, text: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ex.ExplorerError) as caught:
        ex.load_csv(table(tmp_path, text), **options)
    assert said in str(caught.value)


def test_files_with_invalid_text_raise_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ex.FileError, match=r"t\.csv: the file cannot be read as CSV"):
        ex.load_csv(tmp_path / "t.csv")
    with pytest.raises(ex.FileError, match=r"none\.csv"):
        ex.load_csv(tmp_path / "none.csv")


@pytest.mark.parametrize("cell", ["-129", "128"])
def test_a_cell_outside_an_integer_dtype_raises_an_error(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "limits.csv"
    path.write_text(f"-128,127\n1,{cell}\n", encoding="utf-8")
    with pytest.raises(ex.FileError, match="int8"):
        ex.load_csv(path, dtype=np.int8)
