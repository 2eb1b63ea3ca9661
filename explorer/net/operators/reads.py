"""Record of the arguments, weights and operands that a builder has read, so that none is ignored silently.

An argument that a builder never reads may change the result, as ``rounding_mode=floor`` changes a division. A net that
ignored it would differ from the exported program.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from explorer.core.errors import OperandError
from explorer.net.definition.definition import OperatorDefinition

Ignored: TypeAlias = Collection[str | int]
"""names of arguments and weights, and positions of operands, that do not change the result"""
_MAX_LISTED = 24
"""maximum number of argument names in an error"""
_MAX_LENGTH = 60
"""maximum number of characters of a value in an error"""


@dataclass(slots=True)
class Reads:
    """Names of the arguments and weights that a builder has requested, even if absent, and positions of operands."""

    arguments: set[str] = field(default_factory=set)
    weights: set[str] = field(default_factory=set)
    operands: set[int] = field(default_factory=set)

    def check(self, operator: OperatorDefinition, values: Sequence[Any], ignored: Ignored, registration: str) -> None:
        """Raise OperandError if an argument, weight or operand of a built operator was neither read nor ``ignored``.

        The value None, an omitted operand, need not be read. ``registration`` is the line of code in the fix.
        """
        # The inner graph itself reads the blobs that it uses from the outer net.
        inner = {blob for body in operator.bodies.values() for blob in body.inputs}
        unread = [
            f"{name}={value!r:.{_MAX_LENGTH}}"
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
        listed = ", ".join(known[:_MAX_LISTED]) + ", …" * (len(known) > _MAX_LISTED)
        raise OperandError(
            f"{', '.join(unread)}: not supported by explorer's {operator.type}",
            rule=f"{operator.type}: every part in a file must be supported, because it may change the result; "
            + (f"known arguments: {listed}" if known else "no arguments are known"),
            fix=f"leave it out if it changes nothing, or define {operator.type} with it: {registration}",
        )
