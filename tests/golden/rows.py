"""The rows of a recording that a reader would miss: without prose, times, places in the code, and idle passes.

A stage is there if it changed something or decided something, and decisions name their stage, so that another pass, or
another rule, changes only the rows that it changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import explorer as ex
from explorer.record import to_json

LEFT_OUT = {"stages": ("purpose", "micros", "first", "last"), "decisions": ("reason", "location", "rule_index")}
"""Table → the columns that a golden file leaves out: sentences, times, and numbers that other passes or rules shift."""


def rows(recording: ex.Recording) -> dict[str, Any]:
    """The tables of a recording, without the columns that may change while every decision stays as it is."""
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
    """The stages that decided something, or after which the graph is another one."""
    counts = None
    for stage in stages:
        if stage["first"] < stage["last"] or stage["counts"] != counts:
            yield stage
        counts = stage["counts"]


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
