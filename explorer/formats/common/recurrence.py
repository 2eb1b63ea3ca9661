"""Recurrence: cells, and the calls of one cell for each step of a sequence, as all formats' layers use them.

Gates, state and order are torch's; readers of other formats reorder their weights. The product with the inputs is made
once for all steps by the caller, since it does not depend on the state: a step then has one product, h · W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.memory_budget import claim_steps
from explorer.ops.elementwise.unary import relu, sigmoid, tanh
from explorer.ops.manipulation.concat import stack

Cell: TypeAlias = Callable[..., tuple[Expr, ...]]
"""(the input's part of the gates (N, gates · H), the state's weights (H, gates · H), their bias, state…) → new state"""


_NODES = 4
"""nodes that a step records (its part of the input, its call, and the parts of its result), for the limit of a plan"""


def lstm_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr, c: Expr) -> tuple[Expr, ...]:
    """Compute the next state h, c of a long short-term memory; gates are entry, forget, candidate, exit.

    c′ = σ(forget) · c + σ(entry) · tanh(candidate), and h′ = σ(exit) · tanh(c′).
    """
    entry, forget, candidate, exit = gates(affine(h, weights, bias) + x, 4)
    memory = sigmoid(forget) * c + sigmoid(entry) * tanh(candidate)
    return sigmoid(exit) * tanh(memory), memory


def gru_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute the next state of a gated recurrent unit; gates are reset, update, candidate.

    h′ = (1 − z) · n + z · h with z = σ(update) and n = tanh(candidate + σ(reset) · (h · W)).
    """
    reset, update, candidate = gates(x, 3)
    reset_h, update_h, candidate_h = gates(affine(h, weights, bias), 3)
    kept = sigmoid(update + update_h)
    fresh = tanh(candidate + sigmoid(reset + reset_h) * candidate_h)
    # kept · h + (1 − kept) · fresh, with one product less
    return (fresh + kept * (h - fresh),)


def rnn_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute tanh(h · W + b + x), the state of a plain cell."""
    return (tanh(affine(h, weights, bias) + x),)


def relu_cell(x: Expr, weights: Expr, bias: Expr | None, h: Expr) -> tuple[Expr, ...]:
    """Compute relu(h · W + b + x), the state of a plain cell."""
    return (relu(affine(h, weights, bias) + x),)


def affine(x: Expr, weights: Expr, bias: Expr | None) -> Expr:
    """Compute x · W + b; None adds nothing."""
    product = x @ weights
    return product if bias is None else product + bias


def gates(x: Expr, count: int) -> list[Expr]:
    """Split the last axis into ``count`` equal parts."""
    size = x.shape[-1] // count
    return [x[..., i * size : (i + 1) * size] for i in range(count)]


def unroll(
    step: Callable[..., Any],
    entering: Expr,
    weights: Expr,
    bias: Expr | None,
    state: tuple[Expr, ...],
    time_axis: int,
    backwards: bool,
) -> tuple[Expr, tuple[Expr, ...]]:
    """Record a step for each element of a sequence; return the sequence of first states, and the last state.

    ``entering`` are the inputs' parts of the gates, ``time_axis`` is the axis of their steps. Raises BudgetError for
    more steps than ``budget.steps`` grants.
    """
    steps = range(entering.shape[time_axis])
    claim_steps("a sequence", _NODES * len(steps))
    first_states: list[Expr] = []
    for index in reversed(steps) if backwards else steps:
        state = tuple(step(entering[(*[slice(None)] * time_axis, index)], weights, bias, *state))
        first_states.append(state[0])
    # backwards, the first state computed is that of the last step
    return stack(first_states[::-1] if backwards else first_states, time_axis), state
