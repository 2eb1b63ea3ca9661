"""Names of operands at level 0, where pnnx writes them in the order of torch's signature: for types of many parameters.

A pooling whose window is computed has it as an operand; by its name the builder of the same function reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.net.definition.definition import BlobType, OperatorDefinition

_WINDOW = ("input", "kernel_size", "stride", "padding")
_SIGNATURES = {
    "aten::max_pool": (*_WINDOW, "dilation", "ceil_mode"),
    "aten::avg_pool": (*_WINDOW, "ceil_mode", "count_include_pad", "divisor_override"),
    "aten::adaptive_avg_pool": ("input", "output_size"),
}
"""type without its number of axes → torch's names of its operands"""
_NAMES = {f"{name}{axes}d": names for name, names in _SIGNATURES.items() for axes in (1, 2, 3)}


def with_positional_names(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return an operator of level 0 with the names of its operands; any other, or one with too many, as it is."""
    names = _NAMES.get(operator.type, ())
    if operator.input_names or len(operator.inputs) > len(names):
        return operator
    return replace(operator, input_names=dict(zip(names, operator.inputs, strict=False)))
