"""Loop that asks a condition of its state before each turn.

The body is one turn: from a state to the next one, and whether there is another turn. The first question is recorded
in front of the loop, where a plan may answer it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Call
from explorer.core.ir.recording_context import single_source_line
from explorer.core.pytree import flatten, unflatten
from explorer.core.registry import public
from explorer.core.tracing.trace import argument_names, outputs_of
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.ops.control.bodies import (
    as_operand_tree,
    check_callable,
    check_same_containers,
    check_same_types,
    recorded_body,
)

__all__ = ["while_loop"]


class WhileLoop(Call):
    """Loop over its body, a turn, from the state that its operands behind the condition are; one result for each."""

    name = "while_loop"
    inlinable: ClassVar[bool] = False
    nondifferentiable = "the number of turns is known only when they have been run, so their states are not kept"
    refuses_gradient = True
    unbatchable = "members may stop after different numbers of turns"

    @property
    def state_size(self) -> int:
        """Number of values in the state."""
        return len(self.body.outputs) - 1

    def infer(self, *types: AnyType) -> AnyType:
        parts = types[1 : 1 + self.state_size]
        return parts[0] if len(parts) == 1 else TupleType(parts)  # type: ignore[arg-type]  # no part is a tuple

    def flops(self, result: AnyType, *types: AnyType) -> int:
        """Return the operations of one turn: nobody knows how many there are."""
        return self.body.flops


@public
def while_loop(
    condition: Callable[..., Any], turn: Callable[..., Any], initial: Any, *, name: str = "while_loop"
) -> Any:
    """Record a loop: ``state = turn(state)`` as long as ``condition(state)`` holds; returns the last state.

    The state is a tensor, or nested containers of tensors, whose shapes and dtypes a turn keeps; ``condition`` returns
    a scalar of dtype bool. Both may read outer values, which become operands. There is no gradient: where the number of
    turns is known, ``ex.scan`` has one.

    >>> def collatz(state):
    ...     number, steps = state
    ...     return ex.where(number % 2 == 0, number // 2, 3 * number + 1), steps + 1
    >>> number, steps = ex.while_loop(lambda state: state[0] > 1, collatz, (ex.tensor(27), ex.tensor(0)))
    >>> ex.evaluate(steps)
    array(111)
    """
    check_callable(condition, "condition", ["state"])
    check_callable(turn, "turn", ["state"])
    initial = as_operand_tree(initial, "the state")
    with single_source_line():
        state, structure = flatten(initial)
        first = _truth(condition(initial), name)

        def one_turn(again: Expr, before: Any) -> Any:
            values, after = flatten(as_operand_tree(turn(before), "the state after a turn"))
            names = "the state before a turn", "the state after it"
            check_same_containers(structure, after, names, name)
            check_same_types(state, values, names, name)
            return [_truth(condition(unflatten(after, values)), name), *values]

        titles = ["again", *argument_names(turn, (initial,), {})]
        body, captured = recorded_body(one_turn, name, first, initial, titles=titles)
        result = record(WhileLoop(body), (first, *state, *captured))
        return unflatten(structure, outputs_of(result, len(state)))


def _truth(value: Any, name: str) -> Expr:
    if not isinstance(value, Expr) or value.shape != () or value.dtype.kind != "b":
        actual = value.type if isinstance(value, Expr) else type(value).__name__
        raise OperandError(
            f"{name}: the condition returned {actual}",
            rule="the condition must return a scalar of dtype bool",
            fix="lambda state: state.sum() < 10",
        )
    return value
