"""Large programs without scopes."""

from __future__ import annotations

import operator
import random

import numpy as np

import explorer as ex
from tests.support.programs import prepared


def flat(count: int) -> list[ex.Expr]:
    """Return a program without scopes, in which each node reads one or two of the forty nodes before it."""
    chance = random.Random(7)
    values: list[ex.Expr] = [ex.tensor(np.full((4, 4), 0.5, np.float32), name=f"x{number}") for number in range(8)]
    while len(values) < count:
        one, other = chance.choice(values[-40:]), chance.choice(values[-40:])
        values.append(one + other if chance.random() < 0.5 else chance.choice((ex.tanh, ex.sin, ex.relu))(one))
    return values


def planned(count: int) -> ex.EvalPlan:
    """Return the plan of such a program, in which every value is requested."""
    plan = ex.EvalPlan()
    for value in flat(count):
        plan.register(value)
    return plan.prepare()


def read_at_random(count: int, among: int = 0) -> ex.EvalPlan:
    """Return operations on two random nodes of the last ``among`` (0: the last eighth), with many kinds of
    dependences."""
    chance = random.Random(1)
    values: list[ex.Expr] = [ex.tensor(np.full(4, 0.5, np.float32)) for _ in range(8)]
    combine = (operator.add, operator.sub, operator.mul)
    last = among or count // 8
    while len(values) < count:
        first = max(0, len(values) - last)
        one, other = (values[chance.randrange(first, len(values))] for _ in range(2))
        values.append(chance.choice(combine)(one, other))
    return prepared(*values[-40:], record="off")
