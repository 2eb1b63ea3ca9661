"""The table of TensorFlow Lite's operator types; integers that represent real numbers are refused by name.

Quantised arithmetic rounds at every operator by rules of its own. A function that moves elements, or that knows itself
what their scales mean, is registered so; any other refuses an operator with such operands, so that no number is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from explorer.core.errors import OperandError
from explorer.net.operators.context import UNNAMED, OperatorContext
from explorer.net.operators.table import OperatorTable

_Function = TypeVar("_Function", bound=Callable[..., Any])


def input_names(type: str, count: int) -> tuple[str, ...]:
    """Return a name for each input of a type: of its function's parameters, else ``input 0``, ``input 1``, …"""
    signature = TABLE.signature(type)
    names = () if signature is None else signature.input_names(count)
    return (*names, *[f"{UNNAMED}{position}" for position in range(len(names), count)])


TABLE = OperatorTable("tflite", input_names=input_names)
_SCALE, _ZERO_POINT = ".scale", ".zero_point"
_FIRST = frozenset(("NONE", "SAME", "REFLECT", "DEFAULT", "float32"))
"""words and the dtype that are 0 in a file"""


def operator(*types: str, moves: bool = False, quantized: bool = False) -> Callable[[_Function], _Function]:
    """Decorate the function of operator types; shapes and other small values that depend on no input are computed.

    ``moves`` says that the elements of operands become elements of results as they are, whatever numbers they
    represent; ``quantized`` that the function knows scales and zero points. It must have a parameter for each option
    that may differ from the schema's default.
    """

    def check(op: OperatorContext) -> None:
        _check_count(op)
        if not quantized:
            check_real(op, moves)
        _allow_unread(op)

    return TABLE.register(*types, ignored=(), check=check, fold=True)


def _allow_unread(op: OperatorContext) -> None:
    """Note what may go unread: options with the schema's defaults, and facts of operands, which have a dot in them."""
    definition, reads = op.definition, op.reads
    facts = [name for name in (*definition.arguments, *definition.weights) if "." in name]
    reads.arguments.update(facts, [name for name, value in definition.arguments.items() if is_default(value)])
    reads.weights.update(facts)


def is_default(value: object) -> bool:
    """Whether an option has the schema's default: 0, False, an empty list, or the first word or dtype of its kind."""
    return not value or value in _FIRST


def _check_count(op: OperatorContext) -> None:
    """Raise OperandError for operands beyond those that a type has: the function would not read them."""
    definition = op.definition
    names = (*definition.input_names, *definition.weights, *definition.arguments)
    extra = [name for name in names if name.startswith(UNNAMED) and not name.endswith((_SCALE, _ZERO_POINT))]
    if extra:
        raise OperandError(
            f"further operands: {', '.join(extra)}",
            rule=f"{definition.type} must have the operands that TensorFlow Lite's documentation names",
            fix="convert the model again",
        )


def check_real(op: OperatorContext, moves: bool = False, activation: bool = False) -> None:
    """Raise OperandError for quantised operands, unless they are moved and keep their scale.

    ``activation`` allows an activation after them, which the function computes.
    """
    definition = op.definition
    scaled = [
        name.removesuffix(_SCALE) for name in (*definition.arguments, *definition.weights) if name.endswith(_SCALE)
    ]
    if not scaled:
        return
    maps = {
        (definition.arguments.get(f"{name}{_SCALE}"), definition.arguments.get(f"{name}{_ZERO_POINT}"))
        for name in scaled
    }
    plain = activation or definition.arguments.get("fused_activation_function", "NONE") == "NONE"
    if moves and plain and len(maps) == 1 and isinstance(next(iter(maps))[0], float):
        return
    raise OperandError(
        f"{', '.join(scaled)}: integers that represent real numbers, by a scale and a zero point",
        rule=f"{definition.type}: operands and results must be real numbers"
        + ", or all of one scale and zero point, without an activation" * moves
        + "; quantised arithmetic is not computed",
        fix=f"convert the model without quantisation, or register {definition.type} yourself: "
        f"{TABLE.registration(definition.type)}",
    )
