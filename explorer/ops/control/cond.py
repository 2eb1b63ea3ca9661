"""Conditionals: run one of two branches, depending on a condition computed at run time.

The body is ``where(condition, then(…), otherwise(…))``, so graphs show both branches. A batch computes both branches if
its elements' conditions differ.
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
    """Conditional whose body contains two calls; the first operand selects the call that runs."""

    name = "cond"
    inlinable: ClassVar[bool] = False

    @property
    def branches(self) -> tuple[Call, Call]:
        """Calls of the two branches: the first runs if the condition is true, the second if it is false."""
        # cached with the body, because worker processes receive the planned body, in which the calls no longer exist
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
        """Return the operands' gradients, recorded as one conditional that selects the gradients of one branch."""
        condition, *rest = operands
        seeds = [upstream] if isinstance(upstream, Expr) else list(upstream)
        indices = [i for i, node in enumerate(rest) if wanted[i + 1] and _is_real(node)]
        if not indices:
            return [None] * len(operands)
        requested = tuple([index in indices for index in range(len(rest))])

        def gradient_of(call: Call) -> Callable[..., tuple[Expr, ...]]:
            def branch(operands: list[Expr], seed_parts: list[Expr]) -> tuple[Expr, ...]:
                forward = record(call, tuple(operands))
                remaining = iter(seed_parts)
                own = [None if seed is None else next(remaining) for seed in seeds]
                seed = own[0] if isinstance(upstream, Expr) else own
                parts = call.wanted_gradients(seed, forward, tuple(operands), requested)
                return tuple([_or_zeros(parts[index], operands[index]) for index in indices])

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
        by_index = dict(zip(indices, gradients, strict=True))
        return [None, *[by_index.get(index) for index in range(len(rest))]]

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        if batched[0]:  # each batch element has its own condition: compute both branches and select
            return call_rules.batch(Call(self.body), size, batched, operands)

        def batch_of(call: Call) -> Callable[..., tuple[Expr, ...]]:
            def branch(*operands: Expr) -> tuple[Expr, ...]:
                batched_call = call_rules.batch(call, size, batched[1:], operands)
                return tuple(outputs_of(batched_call, len(call.body.outputs)))

            return branch

        then, otherwise = map(batch_of, self.branches)
        return _record(operands[0], then, otherwise, operands[1:], self.body.name)[1]


@public
def cond(
    condition: Any, then: Callable[..., Any], otherwise: Callable[..., Any], *operands: Any, name: str = "cond"
) -> Any:
    """Record a conditional: ``then(*operands)`` if the condition is true, else ``otherwise(*operands)``; only one runs.

    ``condition`` is a scalar of dtype bool. The operands are tensors or nested containers of tensors. Both functions
    must return the same containers, shapes and dtypes. They may capture tensors, which become operands. Use
    ``ex.where`` to choose for each element. The gradient is the gradient of the branch that runs.

    >>> def root(x):
    ...     return ex.cond(x >= 0, lambda x: ex.sqrt(x), lambda x: -ex.sqrt(-x), x)
    >>> ex.evaluate([root(ex.tensor(9.0)), root(ex.tensor(-9.0))])
    [array(3.), array(-3.)]
    """
    arguments = [f"x{index}" for index in range(len(operands))]
    check_callable(then, "then", arguments)
    check_callable(otherwise, "otherwise", arguments)
    (condition,) = flatten(as_operand_tree((condition,), "condition"))[0]
    if condition.shape != () or condition.dtype.kind != "b":
        raise OperandError(
            f"cond with the condition {condition.type}",
            rule="the condition must be a scalar of dtype bool",
            fix="x.sum() > 0, or ex.where(condition, a, b) to choose for each element",
        )
    trees = as_operand_tree(operands, "an operand") if flatten(operands)[0] else operands
    with single_source_line():
        body, result = _record(condition, then, otherwise, trees, name)
    return unpack(body, result)


def _record(condition: Expr, then: Any, otherwise: Any, trees: tuple[Any, ...], name: str) -> tuple[Body, Expr]:
    """Record the conditional; return the body of ``then``, which has the result's structure, and the recorded node."""
    branches = [
        trace(function, title, "function", trees, {}, flatten(trees)[0])
        for function, title in ((then, "then"), (otherwise, "otherwise"))
    ]
    first, second = branches
    names = "the result of then", "the result of otherwise"
    check_same_types(first.outputs, second.outputs, names, name)
    check_same_containers(first.structure, second.structure, names, name)
    # both branches get the same captured values in the same order
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


def _or_zeros(gradient: Expr | None, operand: Expr) -> Expr:
    """Return ``gradient``, or zeros if it is None because the branch does not depend on ``operand``."""
    return zeros(operand.shape, operand.dtype, operand.device) if gradient is None else gradient
