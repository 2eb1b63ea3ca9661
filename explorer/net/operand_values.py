"""Operands of a net by name, while its own plan runs.

`net.compare` uses it: values are looked at when they are written, since a moment later another result may lie in their
memory. So a comparison of all operands takes no more memory than a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array
from explorer.net.building.builder import Build
from explorer.run.execution.program import Program
from explorer.run.execution.value_observer import ValueObserver

Take: TypeAlias = Callable[[str, Array], None]
"""function of an operand's name and its value, which is valid during the call alone"""


class OperandValues(ValueObserver):
    """Observer of a run that hands the values of some operands to a function, each once, by name.

    An operand that the plan does not compute, since it was rewritten without it, is left out.
    """

    def __init__(
        self, program: Program, build: Build, names: Iterable[str], take: Callable[[str, Array], None]
    ) -> None:
        self._take = take
        self._names: dict[int, list[str]] = {}
        """uid of a value → the operands whose value it is"""
        graph = program.planned.graph
        for name in names:
            node = build.values.get(name)
            if isinstance(node, Expr):
                # A rewritten operand has the value of the node in its place. A set: where none was, both are one.
                for uid in {node.uid, graph.resolve(node).uid}:
                    self._names.setdefault(uid, []).append(name)
        super().__init__(program)

    def value(self, uid: int, value: Array) -> None:
        """Hand on the operands that have a value."""
        for name in self._names.get(uid, ()):
            self._take(name, value)
