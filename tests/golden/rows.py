"""The rows of a recording without prose, times and places in the code: what a golden file holds."""

from __future__ import annotations

import json
from typing import Any

import explorer as ex
from explorer.record import to_json

PROSE = {"stages": ("purpose", "micros"), "decisions": ("reason", "location")}
"""Table → the columns that a golden file leaves out: sentences, times, and the module of a decision's rule."""


def rows(recording: ex.Recording) -> dict[str, Any]:
    """The tables of a recording, without the columns that may change while every decision stays as it is."""
    tables = to_json(recording)
    tables.pop("explanations", None)
    tables.pop("source_texts", None)
    for table, columns in PROSE.items():
        for row in tables[table]:
            for column in columns:
                del row[column]
    return tables


def as_text(recording: ex.Recording) -> str:
    """The JSON of the rows: a line for each row of a table, so that a difference names the row."""
    tables = ",\n".join(f"{json.dumps(name)}: {_table(table)}" for name, table in rows(recording).items())
    return "{\n" + tables + "\n}\n"


def _table(table: Any) -> str:
    """One table as JSON: a row or a column a line where there are several."""
    if isinstance(table, list) and table and isinstance(table[0], dict):
        return "[\n" + ",\n".join(f"  {_line(row)}" for row in table) + "\n]"
    if isinstance(table, dict) and table:
        return "{\n" + ",\n".join(f"  {json.dumps(name)}: {_column(value)}" for name, value in table.items()) + "\n}"
    return _line(table)


def _column(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[\n" + ",\n".join(f"    {_line(row)}" for row in value) + "\n  ]"
    return _line(value)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
