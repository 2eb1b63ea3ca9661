"""Rows are immutable, so that recordings, views and comparisons of one plan share them."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

from explorer import record
from explorer.record import Nodes, Recording, Run

TABLES = {Nodes, Recording, Run}
"""tables that a recorder fills incrementally"""
ROWS = sorted(
    {
        kind
        for module in pkgutil.iter_modules(record.__path__)
        for kind in vars(importlib.import_module(f"{record.__name__}.{module.name}")).values()
        if isinstance(kind, type) and is_dataclass(kind) and kind not in TABLES
    },
    key=lambda kind: kind.__qualname__,
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_a_row_is_immutable(row: type) -> None:
    """None of its fields can be assigned."""
    instance = object.__new__(row)
    for field in fields(row):
        with pytest.raises(FrozenInstanceError):
            setattr(instance, field.name, None)
