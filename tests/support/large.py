"""Large programs without any scope."""

from __future__ import annotations

import operator
import random

import numpy as np

import explorer as ex
from tests.support.programs import prepared


def flat(count: int) -> list[ex.Expr]:
    """A program of so many nodes without any scope: each reads one or two of the forty nodes before it."""
    chance = random.Random(7)
    values: list[ex.Expr] = [ex.tensor(np.full((4, 4), 0.5, np.float32), name=f"x{number}") for number in range(8)]
    while len(values) < count:
        one, other = chance.choice(values[-40:]), chance.choice(values[-40:])
        values.append(one + other if chance.random() < 0.5 else chance.choice((ex.tanh, ex.sin, ex.relu))(one))
    return values


def planned(count: int) -> ex.EvalPlan:
    """The plan of such a program; every value is asked for."""
    plan = ex.EvalPlan()
    for value in flat(count):
        plan.register(value)
    return plan.prepare()


def read_at_random(count: int, among: int = 0) -> ex.EvalPlan:
    """Each operation on two of the last ``among`` before (0: an eighth of all): batches read each other many ways."""
    chance = random.Random(1)
    values: list[ex.Expr] = [ex.tensor(np.full(4, 0.5, np.float32)) for _ in range(8)]
    combine = (operator.add, operator.sub, operator.mul)
    last = among or count // 8
    while len(values) < count:
        first = max(0, len(values) - last)
        one, other = (values[chance.randrange(first, len(values))] for _ in range(2))
        values.append(chance.choice(combine)(one, other))
    return prepared(*values[-40:], record="off")
