"""Random programs: expression graphs over float64, with shared parts, calls of functions, views and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import explorer as ex

ROWS, COLUMNS = 3, 4
UNARY = ("tanh", "exp", "log", "sqrt", "square", "negative", "absolute", "sigmoid", "relu", "softplus", "sin", "log1p")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


@ex.function
def gate(x: Any, w: Any) -> Any:
    return ex.sigmoid(x @ w) * x


@ex.function
def both(x: Any, y: Any) -> Any:
    total = x + y
    return total * 0.5, ex.tanh(total) - y


@ex.function
def deep(x: Any, w: Any) -> Any:
    first, second = both(x, gate(x, w))
    return ex.softmax(first) + gate(second, w)


@st.composite
def programs(draw: st.DrawFn, size: int = 24) -> list[ex.Expr]:
    """Roots of a random graph: every node is 3×4 float64, what else lies between is brought back to it."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    weight = ex.tensor(random.normal(size=(COLUMNS, COLUMNS)), name="w")
    row = ex.tensor(random.normal(size=COLUMNS), name="row")
    nodes: list[ex.Expr] = [ex.tensor(random.normal(size=(ROWS, COLUMNS))) for _ in range(2)]
    nodes.append(ex.ZeroTensor((ROWS, COLUMNS), dtype="float64"))
    nodes.append(ex.TrivialTensor(1.0, (ROWS, COLUMNS), dtype="float64"))
    pick = st.integers(0, 10**6)

    def one() -> ex.Expr:
        return nodes[-1 - draw(pick) % min(len(nodes), 6)] if draw(st.booleans()) else nodes[draw(pick) % len(nodes)]

    for _ in range(draw(st.integers(1, size))):
        kind = draw(st.integers(0, 14))
        x = one()
        if kind < 4:
            made = getattr(ex, draw(st.sampled_from(UNARY)))(x)
        elif kind < 7:
            made = getattr(ex, draw(st.sampled_from(BINARY)))(x, one())
        elif kind == 7:
            made = draw(st.sampled_from((x + 0, x * 1, 2.0 * x, x - 0.5, x / 1, 1 + x, x**2, x**3, x / 4)))
        elif kind == 8:
            made = draw(st.sampled_from((x @ weight + row, x * row, (x @ weight) * x, ex.relu(x @ weight) + x)))
        elif kind == 9:
            axis, kept = draw(st.sampled_from(((0, True), (1, True), (None, True), (0, False))))
            made = one() + getattr(x, draw(st.sampled_from(("sum", "mean", "max"))))(axis=axis, keepdims=kept)
        elif kind == 10:
            made = draw(
                st.sampled_from((ex.softmax(x), ex.log_softmax(x, 0), ex.softmax(x, (0, 1)), ex.logsumexp(x) * x))
            )
        elif kind == 11:
            turned = ex.transpose(x)
            made = draw(
                st.sampled_from(
                    (ex.transpose(ex.tanh(turned)), turned.reshape((ROWS, COLUMNS)), ex.transpose(turned) + x[::-1])
                )
            )
        elif kind == 12:
            made = (
                ex.stack([x[index] for index in range(ROWS)])
                if draw(st.booleans())
                else x + ex.stack([one()[0]] * ROWS)
            )
        elif kind == 13:
            joined = ex.concatenate([x, one()])
            made = draw(st.sampled_from((joined[1:4], joined[ROWS:], joined[: ROWS - 1], joined[::2])))
            made = ex.relu(made).max(axis=0) - x if draw(st.booleans()) else ex.concatenate([x[:1], made])[-ROWS:] * row
        else:
            called = draw(st.sampled_from((gate, both, deep)))
            made = called(x, one() if called is both else weight)
        nodes.extend(made if isinstance(made, tuple) else (made,))
    count = draw(st.integers(1, 3))
    return [one() for _ in range(count)]


def prepared(*roots: Any, **options: Any) -> ex.EvalPlan:
    """The plan of some expressions, which has not run."""
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare()
