"""Upgrades of recordings that earlier versions wrote, from the plain form of their schema to today's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MEMORY = {"order": "order", "layout": "format", "buffers": "memory"}
"""name of a stage that schema 1 called a schedule → its kind"""


def upgrade_1(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain form that a recording of schema 1 has in schema 2; a field that does not fit stays as it is."""
    stages = plain.get("stages")
    return {**plain, "stages": [_stage(row) for row in stages]} if isinstance(stages, list) else dict(plain)


def _stage(row: Any) -> Any:
    """Schema 2 says of each stage what it shows, where schema 1 said only that it was a pass or a schedule."""
    if not isinstance(row, Mapping):
        return row
    if row.get("kind") == "pass":
        return {**row, "kind": "rewrite"}
    if row.get("kind") == "schedule":
        return {**row, "kind": _MEMORY.get(str(row.get("name")), "memory")}
    return row
