"""The table of PNNX operator types, and how users add to it."""

from __future__ import annotations

from explorer.net.operators.table import OperatorTable

TABLE = OperatorTable("pnnx")
file_operator = TABLE.register


def layer_types() -> list[str]:
    """The operator types of files that explorer can run, sorted; ``file_operator`` adds to them."""
    return TABLE.types()
