"""Dtypes that pnnx leaves out: of ``torch.sum(x, dtype=…)`` it writes the dtype of the result as a note alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from explorer.net.definition.definition import BlobType, OperatorDefinition

DTYPE = "dtype"
_WIDENED = frozenset(
    [f"{home}.{name}" for home in ("torch", "Tensor") for name in ("sum", "prod", "cumsum", "cumprod")]
)
"""types whose results of truths and whole numbers are int64 unless they are told otherwise"""
_KEPT = frozenset((
    "torch.mean", "Tensor.mean", "torch.softmax", "F.softmax", "F.softmin", "torch.log_softmax", "F.log_softmax",
))  # fmt: skip
"""types whose results have the operand's dtype unless they are told otherwise"""
_QUOTIENT = re.compile(r"\bdiv\(")


def with_noted_dtype(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return an operator with the dtype of its result as an argument, where it is another one than it is by itself.

    An expression that divides gets the dtype of its result if that is whole: such a quotient was rounded.
    """
    if len(operator.outputs) != 1 or operator.arguments.get(DTYPE) is not None:
        return operator
    noted = type_of(operator.outputs[0]).dtype
    if noted is None or noted == _own(operator, type_of):
        return operator
    return replace(operator, arguments={**operator.arguments, DTYPE: f"torch.{noted}"})


def _own(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> str | None:
    """Return the dtype that an operator's result has by itself; for all that is not asked about, the noted one."""
    noted = type_of(operator.outputs[0]).dtype
    text = operator.arguments.get("expr")
    if isinstance(text, str):
        return None if _is_whole(noted) and _QUOTIENT.search(text) else noted
    if not operator.inputs or operator.type not in _WIDENED | _KEPT:
        return noted
    entering = type_of(operator.inputs[0]).dtype
    if entering is None:
        return noted
    return "int64" if operator.type in _WIDENED and (entering == "bool" or _is_whole(entering)) else entering


def _is_whole(dtype: str | None) -> bool:
    return dtype is not None and dtype.startswith(("int", "uint"))
