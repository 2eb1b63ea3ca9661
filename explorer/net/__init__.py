"""Programs by names: definitions as files hold them, and nets that are built, run and explored."""

from explorer.net.buildable import NetState
from explorer.net.context import OperatorContext
from explorer.net.definition import NetDefinition, OperatorDefinition
from explorer.net.findings import UnknownType
from explorer.net.net import Net
from explorer.net.operator import NetOperator
from explorer.net.schema import OperatorSchema
from explorer.net.table import OperatorTable

__all__ = [
    "Net",
    "NetDefinition",
    "NetOperator",
    "NetState",
    "OperatorContext",
    "OperatorDefinition",
    "OperatorSchema",
    "OperatorTable",
    "UnknownType",
]
