"""The table of ONNX operator types; what is known when a net is built is computed then.

Exporters spell out how shapes are computed, node by node. If every operand of an operator is a small constant, its
result is evaluated at once and becomes a constant itself; so a chain of shape arithmetic ends in a number, and a
Reshape after it knows its sizes. Folding here, and not in a plan, is needed because types must be known while the graph
is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.formats.onnx.operators.base.formal_names import input_names
from explorer.formats.onnx.operators.base.opsets import remedy_of
from explorer.net.operators.reads import Ignored
from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _input_names(type: str, count: int) -> tuple[str, ...]:
    domain, _, name = type.rpartition(".")
    return input_names(domain, name, count)


_PACKAGE = "explorer.formats.onnx.operators"
_FAMILIES = {
    "ai.onnx.ml.": (f"{_PACKAGE}.machine_learning",),
    "com.microsoft.": (f"{_PACKAGE}.microsoft", f"{_PACKAGE}.machine_learning", f"{_PACKAGE}.dynamic_lstm"),
    "quantized_decomposed.": (f"{_PACKAGE}.quantized.torch_decomposed",),
}
"""domain → modules of its operators, which few files need"""
TABLE = OperatorTable("onnx", remedy=remedy_of, input_names=_input_names, families=_FAMILIES)


def operator(*types: str, ignored: Ignored = ()) -> Callable[[_Function], _Function]:
    """Decorate the function of operator types; shapes and other small values that depend on no input are computed.

    It must have a parameter for all that the file says of an operator but the ``ignored`` attributes and inputs, which
    change no value.
    """
    return TABLE.register(*types, ignored=ignored, fold=True)
