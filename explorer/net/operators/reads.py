"""Reads of a builder, and what its operator says beyond them, so that nothing in a file is passed over in silence.

An argument that a builder never asks for may change the result, as ``rounding_mode=floor`` does that of a division: a
net built without it would compute other numbers than the program that the file was made of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from explorer.core.errors import OperandError
from explorer.net.definition.definition import OperatorDefinition

Ignored: TypeAlias = Collection[str | int]
"""names of arguments and weights, and places of operands, that change no value of the result"""
_LISTED = 24
"""most names of arguments that a refusal lists"""
_LENGTH = 60
"""most characters of a value that a refusal shows"""


@dataclass(slots=True)
class Reads:
    """Names of the arguments and weights that a builder has asked for, given or not, and places of its operands."""

    arguments: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)
    operands: set[int] = field(default_factory=set)

    def check(self, operator: OperatorDefinition, values: Sequence[Any], ignored: Ignored, registration: str) -> None:
        """Raise OperandError where a built operator has arguments, weights or operands that were neither read nor are
        ``ignored``; None, the value of what is left out, may go unread.
        """
        # an inner graph is read where it is needed, and reads itself what it takes from the net around it
        inner = {blob for body in operator.bodies.values() for blob in body.inputs}
        unread = [
            f"{name}={value!r:.{_LENGTH}}"
            for name, value in operator.arguments.items()
            if not (value is None or name in self.arguments or name in ignored or name in operator.bodies)
        ]
        unread += [
            f"the weight {name!r}" for name in operator.weights if name not in self.weights and name not in ignored
        ]
        names = {blob: name for name, blob in operator.input_names.items()}
        unread += [
            f"operand {position} ({names.get(blob, blob)})"
            for position, (blob, value) in enumerate(zip(operator.inputs, values, strict=True))
            if not (value is None or position in self.operands or position in ignored or names.get(blob) in ignored)
            and blob not in inner
        ]
        if not unread:
            return
        known = sorted(self.arguments.union([name for name in ignored if isinstance(name, str)]))
        listed = ", ".join(known[:_LISTED]) + ", …" * (len(known) > _LISTED)
        raise OperandError(
            f"{', '.join(unread)}: explorer knows no such part of {operator.type}",
            rule=f"{operator.type}: all that a file says must be obeyed, because it may change the result; "
            + (f"known arguments: {listed}" if known else "no arguments are known"),
            fix=f"leave it out if it changes nothing, or say what {operator.type} computes with it: {registration}",
        )
