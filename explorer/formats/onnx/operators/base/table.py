"""The table of ONNX operator types, with constant folding while a net is built.

An operator is computed immediately if all of its operands are small constants. Shape arithmetic thus becomes a
constant, and a subsequent Reshape has known lengths. Folding cannot be a pass of the plan, because types must be known
while the graph is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from explorer.formats.onnx.operators.base.formal_names import attribute_defaults, input_names, output_names
from explorer.formats.onnx.operators.base.opsets import opset_remedy
from explorer.net.operators.reads import Ignored
from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _input_names(type: str, count: int) -> tuple[str, ...]:
    domain, _, name = type.rpartition(".")
    return input_names(domain, name, count)


def _output_names(type: str, count: int) -> tuple[str, ...]:
    domain, _, name = type.rpartition(".")
    return output_names(domain, name, count)


def _defaults(type: str) -> Mapping[str, Any]:
    domain, _, name = type.rpartition(".")
    return attribute_defaults(domain, name)


_PACKAGE = "explorer.formats.onnx.operators"
_FAMILIES = {
    "ai.onnx.ml.": (f"{_PACKAGE}.machine_learning",),
    "com.microsoft.": (f"{_PACKAGE}.microsoft", f"{_PACKAGE}.machine_learning", f"{_PACKAGE}.dynamic_lstm"),
    "quantized_decomposed.": (f"{_PACKAGE}.quantized.torch_decomposed",),
}
"""modules with the operators of each domain, imported on demand"""
TABLE = OperatorTable(
    "onnx",
    remedy=opset_remedy,
    input_names=_input_names,
    output_names=_output_names,
    defaults=_defaults,
    families=_FAMILIES,
)


def operator(*types: str, ignored: Ignored = ()) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a function for operator types and folds small constants.

    The function must have a parameter for each input and attribute, except for ``ignored`` ones, which do not affect
    values.
    """
    return TABLE.register(*types, ignored=ignored, fold=True)
