"""Nets, which are programs of named operators, as in model files; they can be built, edited, run and explored."""

from explorer.net import database_operators as _database_operators  # noqa: F401  # declares operator types
from explorer.net.blob import Blob
from explorer.net.blob_operator import BlobOperator
from explorer.net.building.diagnostics import UnknownType
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition
from explorer.net.model_helper import ModelHelper
from explorer.net.net import Net, NetState
from explorer.net.net_operator import NetOperator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import OperatorSchema
from explorer.net.operators.table import OperatorTable
from explorer.net.type_meta import TypeMeta
from explorer.net.workspace import Workspace

__all__ = [
    "Blob",
    "BlobOperator",
    "BlobType",
    "ModelHelper",
    "Net",
    "NetDefinition",
    "NetOperator",
    "NetState",
    "OperatorContext",
    "OperatorDefinition",
    "OperatorSchema",
    "OperatorTable",
    "TypeMeta",
    "UnknownType",
    "Workspace",
]
