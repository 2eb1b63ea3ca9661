"""The table of explorer's own operator types, and how users add to it."""

from __future__ import annotations

from explorer.net.operators.table import OperatorTable

DIALECT = "explorer"
TABLE = OperatorTable(DIALECT, rewrites=True)
net_operator = TABLE.declare
"""``@net_operator()`` above a function of expressions makes it an operator type: constructor, schema and help."""
