"""Reader of numeric tables in CSV files.

An invalid cell does not become NaN, but raises an error with the line number. Callers choose the value of empty cells.
"""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from explorer.core.argument_checks import named
from explorer.core.errors import FileError, OperandError
from explorer.core.files.open_untrusted import opened
from explorer.core.ir.tensor import Tensor, tensor
from explorer.record.reasons import counted_text


@named
def load_csv(
    path: str | os.PathLike[str],
    *,
    header: bool | None = None,
    delimiter: str = ",",
    empty: float = float("nan"),
    dtype: Any = np.float32,
) -> Tensor:
    r"""Load the numbers of a CSV file as a tensor (rows, columns).

    Empty cells become ``empty``, and empty lines are skipped. ``header`` states whether the first row contains names;
    if it is None, a cell that is neither a number nor empty indicates names. Raise FileError with the line if a cell is
    not a number of the dtype, or if rows differ in length.

    >>> with open("sizes.csv", "w") as file:
    ...     count = file.write("height,width\n1,2\n3,\n")
    >>> ex.load_csv("sizes.csv").array
    array([[ 1.,  2.],
           [ 3., nan]], dtype=float32)
    """
    element_dtype = np.dtype(dtype)
    if element_dtype.kind not in "fiu" or len(delimiter) != 1:
        raise OperandError(
            f"load_csv with dtype {element_dtype.name} and delimiter {delimiter!r}",
            rule="the dtype must be a real dtype, and the delimiter one character",
            fix="ex.load_csv(path, dtype='float32', delimiter=';')",
        )
    name = os.fspath(path)
    read = float if element_dtype.kind == "f" else int
    rows: list[list[Any]] = []
    try:
        # utf-8-sig removes the byte order mark that spreadsheets write; newline="" because csv handles line ends.
        with io.TextIOWrapper(opened(name), encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file, delimiter=delimiter)
            for row in lines:
                if not row or (len(row) == 1 and not row[0].strip()):
                    continue
                if header or (header is None and not rows and not all(map(_is_number, row))):
                    header = False
                    continue
                header = False
                if rows and len(row) != len(rows[0]):
                    raise FileError(
                        counted_text(len(row), "cell"), path=name, line=lines.line_num,
                        rule=f"every row must have as many cells as the first: {len(rows[0])}", fix="complete the row",
                    )  # fmt: skip
                rows.append([_cell(cell, read, empty, element_dtype, name, lines.line_num) for cell in row])
    except FileError:
        raise
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(f"the file cannot be read as CSV: {error}", path=name, fix="give a UTF-8 text file") from error
    if not rows:
        raise FileError(
            "no row of numbers",
            path=name,
            rule="the file must have at least one row",
            fix="check the file: its only line may have been skipped as a header",
        )
    return tensor(np.array(rows, element_dtype), name=Path(name).stem, copy=False)


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip() or 0)
    except ValueError:
        return False
    return True


def _cell(cell: str, read: Any, empty: float, element_dtype: np.dtype[Any], path: str, line: int) -> Any:
    text = cell.strip()
    try:
        value = read(text) if text else empty
        if element_dtype.kind in "iu" and not np.iinfo(element_dtype).min <= value <= np.iinfo(element_dtype).max:
            raise ValueError
    except ValueError:
        raise FileError(
            f"the cell {text[:40]!r}" if text else "an empty cell", path=path, line=line,
            rule=f"a cell must be a number of dtype {element_dtype.name}",
            fix="correct the cell, choose another dtype, or give a value for empty cells: empty=0",
        ) from None  # fmt: skip
    return value
