"""Interface of a net: the expressions of its inputs and outputs, named and ordered as in its definition.

A recording shows them as the ports of the whole picture. They are kept apart from the plan's roots, since rewriting may
put other nodes in the place of outputs, and inputs that nothing reads are in no plan.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.core.ir.expr import Expr
from explorer.net.building.builder import Build
from explorer.run.recording.interface_table import InterfaceValue


def interface(build: Build) -> list[InterfaceValue]:
    """Return the inputs, then the outputs, of a build; values that are no expressions are left out."""
    definition = build.definition
    inputs = [
        InterfaceValue("input", *pair) for name in definition.inputs for pair in _members(name, build.inputs[name])
    ]
    values = [(name, build.values[definition.blob(name).name]) for name in definition.outputs]
    return inputs + [InterfaceValue("output", *pair) for name, value in values for pair in _members(name, value)]


def _members(name: str, value: object) -> Iterator[tuple[str, Expr]]:
    """Yield the expressions of a value by name."""
    if isinstance(value, Expr):
        yield name, value
    elif isinstance(value, tuple):
        for place, member in enumerate(value):
            if isinstance(member, Expr):
                yield f"{name}[{place}]", member
