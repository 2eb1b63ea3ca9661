"""Learning rates of optimizers and of their groups: from numbers, checked, and as plain data for files."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from explorer.core.errors import DeclarationError
from explorer.ops.nn.learning_rates import Fixed, LearningRate


def as_rate(rate: float | LearningRate) -> LearningRate:
    """Return a learning-rate policy, of a number the fixed one.

    Raises DeclarationError for what is neither, and for a rate that begins below 0, with which training climbs the
    loss.
    """
    policy = rate if isinstance(rate, LearningRate) else Fixed(rate)
    at: Any = policy
    while isinstance(then := getattr(at, "then", None), LearningRate):
        at = then
    base = getattr(at, "base", 0)
    if isinstance(base, (int, float)) and base < 0:
        raise DeclarationError(
            f"an optimizer of the rate {policy!r}",
            rule="a learning rate must be 0 or more: a step goes against the gradient",
            fix=f"{-base!r}; to make a loss larger, train its negative",
        )
    return policy


def rate_settings(rate: LearningRate) -> dict[str, Any]:
    """Return a policy as numbers and texts."""
    values = {field.name: getattr(rate, field.name) for field in fields(rate)}
    return {
        "type": type(rate).__name__,
        **{name: rate_settings(value) if isinstance(value, LearningRate) else value for name, value in values.items()},
    }
