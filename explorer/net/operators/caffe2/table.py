"""Table of explorer's own operator types, and the decorator that adds a type."""

from __future__ import annotations

from explorer.net.operators.table import OperatorTable

DIALECT = "explorer"
TABLE = OperatorTable(DIALECT, rewrites=True)
net_operator = TABLE.declare
"""decorator that declares a function of expressions as an operator type: ``@net_operator()``"""
