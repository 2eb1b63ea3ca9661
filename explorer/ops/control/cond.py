"""Choice between two branches by a condition that the run computes; only one of them runs.

Its body is the choice as dataflow, ``where(condition, then(…), otherwise(…))``: pictures show both branches in it, and
a batch whose members differ in the condition computes both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, record
from explorer.core.ir.function import Body, Call, call_rules
from explorer.core.ir.recording_context import single_source_line
from explorer.core.pytree import flatten
from explorer.core.registry import public
from explorer.core.tracing.trace import outputs_of, trace, unpack
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.ops.control.bodies import (
    as_operand_tree,
    check_callable,
    check_same_containers,
    check_same_types,
    closed_body,
    recorded_body,
)
from explorer.ops.creation.constants import zeros
from explorer.ops.elementwise.arithmetic import where

__all__ = ["cond"]


class Cond(Call):
    """Choice between the two calls of its body by its first operand; one of them runs."""

    name = "cond"
    inlinable: ClassVar[bool] = False

    @property
    def branches(self) -> tuple[Call, Call]:
        """Calls of the branch that runs if the condition holds, and of the other one."""
        # Kept with the body, which a worker has as a plan, in which no call is left.
        known: tuple[Call, Call] | None = self.body.derived.get("branches")
        if known is None:
            then, otherwise = [node.operation for node in self.body.nodes if type(node.operation) is Call]
            known = self.body.derived["branches"] = then, otherwise
        return known

    @property
    def planned_bodies(self) -> tuple[Body, ...]:
        then, otherwise = self.branches
        return then.body, otherwise.body

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return max([body.flops for body in self.planned_bodies])

    def wanted_gradients(
        self, upstream: Any, result: Expr, operands: tuple[Expr, ...], wanted: tuple[bool, ...]
    ) -> list[Expr | None]:
        """Return the gradients of operands: a choice between the branches' gradients."""
        condition, *rest = operands
        seeds = [upstream] if isinstance(upstream, Expr) else list(upstream)
        places = [i for i, node in enumerate(rest) if wanted[i + 1] and _is_real(node)]
        if not places:
            return [None] * len(operands)
        asked = tuple([place in places for place in range(len(rest))])

        def gradient_of(call: Call) -> Callable[..., tuple[Expr, ...]]:
            def branch(operands: list[Expr], seed_parts: list[Expr]) -> tuple[Expr, ...]:
                forward = record(call, tuple(operands))
                remaining = iter(seed_parts)
                own = [None if seed is None else next(remaining) for seed in seeds]
                seed = own[0] if isinstance(upstream, Expr) else own
                parts = call.wanted_gradients(seed, forward, tuple(operands), asked)
                return tuple([_total(parts[place], operands[place]) for place in places])

            return branch

        then, otherwise = map(gradient_of, self.branches)
        gradients = cond(
            condition,
            then,
            otherwise,
            rest,
            [seed for seed in seeds if seed is not None],
            name=f"{self.body.name} gradient",
        )
        by_place = dict(zip(places, gradients, strict=True))
        return [None, *[by_place.get(place) for place in range(len(rest))]]

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        if batched[0]:  # members take different branches: both are computed, and each member's is chosen
            return call_rules.batch(Call(self.body), size, batched, operands)

        def batch_of(call: Call) -> Callable[..., tuple[Expr, ...]]:
            def branch(*operands: Expr) -> tuple[Expr, ...]:
                whole = call_rules.batch(call, size, batched[1:], operands)
                return tuple(outputs_of(whole, len(call.body.outputs)))

            return branch

        then, otherwise = map(batch_of, self.branches)
        return _record(operands[0], then, otherwise, operands[1:], self.body.name)[1]


@public
def cond(
    condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any, name: str = "cond"
) -> Any:
    """Record a choice: ``then(*operands)`` if the condition holds, else ``otherwise(*operands)``; only one runs.

    ``condition`` is a scalar of dtype bool. Operands are tensors, or nested containers of them; both functions return
    the same containers of values of the same shapes and dtypes, and may read outer values, which become operands. A
    choice by element is ``ex.where``. The gradient is that of the branch that runs.

    >>> def root(x):
    ...     return ex.cond(x >= 0, lambda x: ex.sqrt(x), lambda x: -ex.sqrt(-x), x)
    >>> ex.evaluate([root(ex.tensor(9.0)), root(ex.tensor(-9.0))])
    [array(3.), array(-3.)]
    """
    arguments = [f"x{place}" for place in range(len(operands))]
    check_callable(then, "then", arguments)
    check_callable(otherwise, "otherwise", arguments)
    (condition,) = flatten(as_operand_tree((condition,), "condition"))[0]
    if condition.shape != () or condition.dtype.kind != "b":
        raise OperandError(
            f"cond with the condition {condition.type}",
            rule="the condition must be a scalar of dtype bool",
            fix="x.sum() > 0, or ex.where(condition, a, b) for a choice by element",
        )
    trees = as_operand_tree(operands, "an operand") if flatten(operands)[0] else operands
    with single_source_line():
        body, result = _record(condition, then, otherwise, trees, name)
    return unpack(body, result)


def _record(condition: Expr, then: Any, otherwise: Any, trees: tuple[Any, ...], name: str) -> tuple[Body, Expr]:
    """Record the node; return the first branch, whose containers are those of the result, and the node."""
    branches = [
        trace(function, title, "function", trees, {}, flatten(trees)[0])
        for function, title in ((then, "then"), (otherwise, "otherwise"))
    ]
    first, second = branches
    names = "the result of then", "the result of otherwise"
    check_same_types(first.outputs, second.outputs, names, name)
    check_same_containers(first.structure, second.structure, names, name)
    # both branches have the same operands, in one order
    by_uid = {node.uid: node for body in branches for node in body.captured}
    captured = tuple([by_uid[uid] for uid in sorted(by_uid)])
    calls = [Call(closed_body(body, captured)) for body in branches]

    def choice(condition: Expr, *operands: Expr) -> list[Expr]:
        results = [outputs_of(record(call, operands), len(call.body.outputs)) for call in calls]
        return [where(condition, a, b) for a, b in zip(*results, strict=True)]

    operands = condition, *flatten(trees)[0], *captured
    titles = ["condition", *[parameter.label for parameter in calls[0].body.parameters]]
    body, _ = recorded_body(choice, name, *operands, titles=titles)
    return first, record(Cond(body), operands)


def _is_real(node: Expr) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.kind == "f"


def _total(gradient: Expr | None, operand: Expr) -> Expr:
    """Return an operand's gradient, zeros where the branch does not depend on it."""
    return zeros(operand.shape, operand.dtype, operand.device) if gradient is None else gradient
