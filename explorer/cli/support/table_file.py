"""Files with the rows of a table, as CSV or JSON, and with the text that the command prints."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.cli.support.output import extension_error
from explorer.core.files.atomic_write import write_file
from explorer.record.escape import visible

_FORMULA = ("=", "+", "-", "@")


def check_extension(output: Path) -> None:
    """Raise FileError for an extension other than .csv, .json, .txt and .html."""
    if output.suffix.lower() not in (".csv", ".json", ".txt", ".html"):
        raise extension_error(output, ".csv, .json, .txt or .html", ".csv")


def write(output: Path, rows: Sequence[Mapping[str, Any]], text: str) -> None:
    """Write rows with equal keys to a .csv or .json file, or ``text`` to a .txt file.

    In JSON, numbers that are not finite are null.
    """
    extension = output.suffix.lower()
    if extension == ".txt":
        write_file(output, text)
    elif extension == ".json":
        plain = [{key: None if _is_unbounded(value) else value for key, value in row.items()} for row in rows]
        write_file(output, json.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(rows[0] if rows else ())
        writer.writerows([[_cell(value) for value in row.values()] for row in rows])
        write_file(output, buffer.getvalue())


def _is_unbounded(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _cell(value: Any) -> Any:
    """Return a cell; a name that a spreadsheet would compute as a formula begins with an apostrophe."""
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{visible(value)}" if value.startswith(_FORMULA) else visible(value)
