"""Bodies of loops and choices whose results have unknown shapes, as pictures show them before inputs have values."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from explorer.core.errors import ExplorerError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Body
from explorer.core.ir.recording_context import scope
from explorer.core.registry import function
from explorer.formats.common.known_inputs import is_known, value_of
from explorer.net.building.containers import leaves
from explorer.net.operators.context import BuildBody, OperatorContext
from explorer.ops.control.bodies import recorded_body
from explorer.ops.creation.constants import full


def recorded_branches(op: OperatorContext, condition: Expr) -> tuple[Body, tuple[Expr, ...]] | None:
    """Return the branches that can be recorded as one body, and the operands of its call; None if none can."""
    branches: dict[str, BuildBody] = {}
    for name in op.definition.bodies:
        with suppress(ExplorerError):
            if leaves(op.body(name)(())):
                branches[name] = op.body(name)

    def both(condition: Expr) -> list[Expr]:
        results: list[Any] = []
        for name, branch in branches.items():
            with scope(name, "file"):
                results += branch(())
        return leaves(results)

    if not branches:
        return None
    recorded, captured = recorded_body(both, op.definition.name, condition)
    return recorded, (condition, *captured)


def recorded_turn(
    op: OperatorContext, body: BuildBody, state: list[Any], limit: Expr | None, condition: Expr
) -> tuple[Body, tuple[Expr, ...]]:
    """Return the first turn as a body, and the operands of its call."""
    # numbers of the loop's own, which are no weights of the file
    first = full((), bool(value_of(condition)), "bool") if is_known(condition) else condition
    start = full((), 0, "int64"), first, *state, *([] if limit is None else [limit])

    def turn(number: Expr, again: Expr, *rest: Any) -> list[Expr]:
        goes_on, *results = body([number, again, *rest[: len(state)]])
        if limit is not None:
            goes_on = function("logical_and")(goes_on, number + 1 < rest[-1])
        return leaves([goes_on, *results])

    recorded, captured = recorded_body(turn, op.definition.name, *start)
    return recorded, (*leaves(start), *captured)
