"""Table of TensorFlow Lite's operator types.

Each quantised operator has its own rounding rules. Quantised operands therefore raise an error, unless the operator
type is registered as only moving elements or as handling scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.core.errors import OperandError
from explorer.net.operators.context import UNNAMED, OperatorContext
from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def input_names(type: str, count: int) -> tuple[str, ...]:
    """Return the names of the inputs of ``type``: the parameters of its function, or ``input 0``, ``input 1``, …"""
    signature = TABLE.signature(type)
    names = () if signature is None else signature.input_names(count)
    return (*names, *[f"{UNNAMED}{position}" for position in range(len(names), count)])


TABLE = OperatorTable("tflite", input_names=input_names)
_SCALE, _ZERO_POINT = ".scale", ".zero_point"
_FIRST = frozenset(("NONE", "SAME", "REFLECT", "DEFAULT", "float32"))
"""the dtype, and the names of enumeration values, that are stored as 0 in a file"""


def operator(*types: str, moves: bool = False, quantized: bool = False) -> Callable[[_Function], _Function]:
    """Decorate the function for one or more operator types.

    Small results that depend on no input are computed while the net is built. Set ``moves`` if the function only moves
    elements, and ``quantized`` if it handles scales and zero points. The function must have a parameter for each option
    that may differ from the schema's default.
    """

    def check(op: OperatorContext) -> None:
        _check_count(op)
        if not quantized:
            check_real(op, moves)
        _allow_unread(op)

    return TABLE.register(*types, ignored=(), check=check, fold=True)


def _allow_unread(op: OperatorContext) -> None:
    """Mark as read what may be ignored: options with default values, and properties such as ``x.scale``."""
    definition, reads = op.definition, op.reads
    properties = [name for name in (*definition.arguments, *definition.weights) if "." in name]
    reads.arguments.update(properties, [name for name, value in definition.arguments.items() if is_default(value)])
    reads.weights.update(properties)


def is_default(value: object) -> bool:
    """Return whether an option has the schema's default: 0, False, an empty list, or the first enumeration value."""
    return not value or value in _FIRST


def _check_count(op: OperatorContext) -> None:
    """Raise OperandError if there are more operands than the function reads."""
    definition = op.definition
    names = (*definition.input_names, *definition.weights, *definition.arguments)
    extra = [name for name in names if name.startswith(UNNAMED) and not name.endswith((_SCALE, _ZERO_POINT))]
    if extra:
        raise OperandError(
            f"additional operands: {', '.join(extra)}",
            rule=f"{definition.type} must have the operands in TensorFlow Lite's documentation",
            fix="convert the model again",
        )


def check_real(op: OperatorContext, moves: bool = False, activation: bool = False) -> None:
    """Raise OperandError if an operand is quantised.

    If ``moves`` is True, operands with equal scales and zero points are allowed, but no fused activation, unless
    ``activation`` states that the function applies it.
    """
    definition = op.definition
    quantized = [
        name.removesuffix(_SCALE) for name in (*definition.arguments, *definition.weights) if name.endswith(_SCALE)
    ]
    if not quantized:
        return
    scales = {
        (definition.arguments.get(f"{name}{_SCALE}"), definition.arguments.get(f"{name}{_ZERO_POINT}"))
        for name in quantized
    }
    no_activation = activation or definition.arguments.get("fused_activation_function", "NONE") == "NONE"
    if moves and no_activation and len(scales) == 1 and isinstance(next(iter(scales))[0], float):
        return
    # the result has a scale, too, unless only weights are quantised and the operator computes in float32
    is_hybrid = all(name in definition.weights for name in quantized)
    raise OperandError(
        f"{', '.join(quantized)}: quantised integers with a scale and a zero point"
        + ", although the other operands are floats (dynamic-range quantisation)" * is_hybrid,
        rule=f"{definition.type}: operands and results must not be quantised"
        + ", unless they share one scale and zero point and there is no activation" * moves
        + "; quantised arithmetic is not supported",
        fix=f"convert the model without quantisation, or register your own {definition.type}: "
        f"{TABLE.registration(definition.type)}",
    )
