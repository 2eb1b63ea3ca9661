"""Essential rows of a recording: without prose, times, code locations, and idle passes.

Only stages that changed or decided something are kept, and decisions refer to stages by name, so that a new pass or
rule changes only the rows that it affects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import explorer as ex
from explorer.record import to_json

LEFT_OUT = {
    "stages": ("purpose", "micros", "first", "last", "limits", "pipeline"),
    "decisions": ("reason", "location", "rule_index"),
}
"""table → columns omitted from golden files: sentences, times, and numbers that other passes or rules shift"""


def rows(recording: ex.Recording) -> dict[str, Any]:
    """Return the tables of a recording without columns that may change while all decisions stay."""
    tables = to_json(recording)
    tables.pop("explanations", None)
    tables.pop("source_texts", None)
    for decision in tables["decisions"]:
        decision["stage"] = tables["stages"][decision["stage"]]["name"]
    tables["stages"] = list(_working(tables["stages"]))
    for table, columns in LEFT_OUT.items():
        for row in tables[table]:
            for column in columns:
                del row[column]
    return tables


def _working(stages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return the stages with decisions or changes of the graph."""
    counts = None
    for stage in stages:
        if stage["first"] < stage["last"] or stage["counts"] != counts:
            yield stage
        counts = stage["counts"]


def as_text(recording: ex.Recording) -> str:
    """Return the rows as JSON with one line per row, so that a diff shows the row."""
    tables = ",\n".join(f"{json.dumps(name)}: {_table(table)}" for name, table in rows(recording).items())
    return "{\n" + tables + "\n}\n"


def _table(table: Any) -> str:
    """Return one table as JSON, with a line for each of several rows or columns."""
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
