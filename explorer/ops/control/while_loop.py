"""While loops, which test a condition on their state before each iteration.

The body is one iteration. It computes the next state and whether to continue. The first test is recorded before the
loop, so a plan can evaluate it in advance.
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
from explorer.record.renamed import renamed_options

__all__ = ["while_loop"]


class WhileLoop(Call):
    """Loop: first condition, initial state and captured values → last state."""

    name = "while_loop"
    inlinable: ClassVar[bool] = False
    nondifferentiable = "the number of iterations is known only after the run, so the states are not kept"
    refuses_gradient = True
    unbatchable = "batch elements may stop after different numbers of iterations"

    @property
    def state_size(self) -> int:
        """Number of tensors in the state."""
        return len(self.body.outputs) - 1

    def infer(self, *types: AnyType) -> AnyType:
        parts = types[1 : 1 + self.state_size]
        return parts[0] if len(parts) == 1 else TupleType(parts)  # type: ignore[arg-type]  # parts are never tuples

    def flops(self, result: AnyType, *types: AnyType) -> int:
        """Return the flops of one iteration, because the number of iterations is unknown."""
        return self.body.flops


@public
@renamed_options(turn="body")
def while_loop(
    condition: Callable[..., Any], body: Callable[..., Any], initial: Any, *, name: str = "while_loop"
) -> Any:
    """Record a loop that computes ``state = body(state)`` while ``condition(state)`` is true.

    Returns the last state. The state is a tensor or nested containers of tensors, whose shapes and dtypes ``body`` must
    preserve. ``condition`` returns a scalar of dtype bool. Both functions may capture tensors, which become operands.
    The loop has no gradient. If the number of iterations is known, use ``ex.scan``, which has a gradient.

    >>> def collatz(state):
    ...     number, steps = state
    ...     return ex.where(number % 2 == 0, number // 2, 3 * number + 1), steps + 1
    >>> number, steps = ex.while_loop(lambda state: state[0] > 1, collatz, (ex.tensor(27), ex.tensor(0)))
    >>> ex.evaluate(steps)
    array(111)
    """
    check_callable(condition, "condition", ["state"])
    check_callable(body, "body", ["state"])
    initial = as_operand_tree(initial, "the state")
    with single_source_line():
        state, structure = flatten(initial)
        first = _checked_condition(condition(initial), name)

        def iteration(again: Expr, before: Any) -> Any:
            values, after = flatten(as_operand_tree(body(before), "the state after an iteration"))
            names = "the state before an iteration", "the state after it"
            check_same_containers(structure, after, names, name)
            check_same_types(state, values, names, name)
            return [_checked_condition(condition(unflatten(after, values)), name), *values]

        titles = ["again", *argument_names(body, (initial,), {})]
        recorded, captured = recorded_body(iteration, name, first, initial, titles=titles)
        result = record(WhileLoop(recorded), (first, *state, *captured))
        return unflatten(structure, outputs_of(result, len(state)))


def _checked_condition(value: Any, name: str) -> Expr:
    if not isinstance(value, Expr) or value.shape != () or value.dtype.kind != "b":
        actual = value.type if isinstance(value, Expr) else type(value).__name__
        raise OperandError(
            f"{name}: the condition returned {actual}",
            rule="the condition must return a scalar of dtype bool",
            fix="lambda state: state.sum() < 10",
        )
    return value
