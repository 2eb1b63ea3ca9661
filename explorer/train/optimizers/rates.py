"""Learning rates of optimizers and of their groups: from numbers, checked, and as plain data for files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from explorer.core.errors import DeclarationError
from explorer.ops.nn.learning_rates import Fixed, LearningRate


def as_rate(rate: float | LearningRate) -> LearningRate:
    """Return a learning-rate policy, of a number the fixed one.

    Raises DeclarationError for what is neither, for a rate that begins below 0, with which training climbs the loss,
    and for a policy with values besides its fields, by which policies are compared.
    """
    policy = rate if isinstance(rate, LearningRate) else Fixed(rate)
    for each in _inside(policy):
        compared = [field.name for field in fields(each) if field.compare]
        hidden = next((name for name in getattr(each, "__dict__", {}) if name not in compared), None)
        # Equal policies share one plan: with a value that is not compared, another one's rate would be used.
        if hidden is not None:
            raise DeclarationError(
                f"the attribute {hidden!r} of the learning-rate policy {each!r}",
                rule="a policy must be a frozen dataclass, whose numbers are fields that are compared",
                fix=f"@dataclass(frozen=True), and in the class {hidden}: float",
            )
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


def _inside(policy: LearningRate) -> Iterator[LearningRate]:
    waiting = [policy]
    while waiting:
        each = waiting.pop()
        yield each
        waiting += [value for field in fields(each) if isinstance(value := getattr(each, field.name), LearningRate)]
