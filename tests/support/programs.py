"""Random programs: expression graphs over float64 with shared parts, calls, views and reductions."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

import explorer as ex

ROWS, COLUMNS = 3, 4
UNARY = ("tanh", "exp", "log", "sqrt", "square", "negative", "absolute", "sigmoid", "relu", "softplus", "sin", "log1p")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
OPTIONAL = ("simplify", "dedup", "prune", "batch", "fuse")
"""passes that a plan may omit"""
subsets = st.sets(st.sampled_from(OPTIONAL)).map(lambda chosen: tuple(sorted(chosen)))
"""strategy for passes to omit"""
limits = st.sampled_from((0, 20, 60, 500_000))
"""strategy for the maximum number of nodes that inlining may add"""


@ex.function
def gate(x: Any, w: Any) -> Any:
    """Return x multiplied by a sigmoid of its product."""
    return ex.sigmoid(x @ w) * x


@ex.function
def both(x: Any, y: Any) -> Any:
    """Return two results of one sum."""
    total = x + y
    return total * 0.5, ex.tanh(total) - y


@ex.function
def deep(x: Any, w: Any) -> Any:
    """Return a call's result from within another call."""
    first, second = both(x, gate(x, w))
    return ex.softmax(first) + gate(second, w)


@st.composite
def programs(draw: st.DrawFn, size: int = 24, device: str = "cpu") -> list[ex.Expr]:
    """Draw roots of a random graph on a device: nodes are 3×4 float64; results of other shapes are converted back."""
    place = ex.device(device)
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    weight = ex.tensor(random.normal(size=(COLUMNS, COLUMNS)), name="w", device=place)
    row = ex.tensor(random.normal(size=COLUMNS), name="row", device=place)
    nodes: list[ex.Expr] = [ex.tensor(random.normal(size=(ROWS, COLUMNS)), device=place) for _ in range(2)]
    nodes.append(ex.ZeroTensor((ROWS, COLUMNS), dtype="float64", device=place))
    nodes.append(ex.TrivialTensor(1.0, (ROWS, COLUMNS), dtype="float64", device=place))
    pick = st.integers(0, 10**6)

    def one() -> ex.Expr:
        return nodes[-1 - draw(pick) % min(len(nodes), 6)] if draw(st.booleans()) else nodes[draw(pick) % len(nodes)]

    for _ in range(draw(st.integers(1, size))):
        kind = draw(st.integers(0, 14))
        x = one()
        if kind < 4:
            value = getattr(ex, draw(st.sampled_from(UNARY)))(x)
        elif kind < 7:
            value = getattr(ex, draw(st.sampled_from(BINARY)))(x, one())
        elif kind == 7:
            value = draw(st.sampled_from((x + 0, x * 1, 2.0 * x, x - 0.5, x / 1, 1 + x, x**2, x**3, x / 4)))
        elif kind == 8:
            value = draw(st.sampled_from((x @ weight + row, x * row, (x @ weight) * x, ex.relu(x @ weight) + x)))
        elif kind == 9:
            axis, kept = draw(st.sampled_from(((0, True), (1, True), (None, True), (0, False))))
            value = one() + getattr(x, draw(st.sampled_from(("sum", "mean", "max"))))(axis=axis, keepdims=kept)
        elif kind == 10:
            value = draw(
                st.sampled_from((ex.softmax(x), ex.log_softmax(x, 0), ex.softmax(x, (0, 1)), ex.logsumexp(x) * x))
            )
        elif kind == 11:
            turned = ex.transpose(x)
            value = draw(
                st.sampled_from(
                    (ex.transpose(ex.tanh(turned)), turned.reshape((ROWS, COLUMNS)), ex.transpose(turned) + x[::-1])
                )
            )
        elif kind == 12:
            value = (
                ex.stack([x[index] for index in range(ROWS)])
                if draw(st.booleans())
                else x + ex.stack([one()[0]] * ROWS)
            )
        elif kind == 13:
            joined = ex.concatenate([x, one()])
            value = draw(st.sampled_from((joined[1:4], joined[ROWS:], joined[: ROWS - 1], joined[::2])))
            value = (
                ex.relu(value).max(axis=0) - x if draw(st.booleans()) else ex.concatenate([x[:1], value])[-ROWS:] * row
            )
        else:
            called = draw(st.sampled_from((gate, both, deep)))
            value = called(x, one() if called is both else weight)
        nodes.extend(value if isinstance(value, tuple) else (value,))
    count = draw(st.integers(1, 3))
    return [one() for _ in range(count)]


def prepared(*roots: Any, **options: Any) -> ex.EvalPlan:
    """Return the plan of expressions, without running it."""
    plan = ex.EvalPlan(**options)
    for root in roots:
        plan.register(root)
    return plan.prepare()


@st.composite
def sized(draw: st.DrawFn) -> list[ex.Expr]:
    """Draw roots of random graphs with results of different sizes: products, slices, concatenations and views."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    nodes: list[ex.Expr] = [ex.tensor(random.normal(size=draw(st.integers(1, 60)))) for _ in range(2)]
    pick = st.integers(0, 10**6)
    for _ in range(draw(st.integers(1, 20))):
        x, y = nodes[-1 - draw(pick) % min(len(nodes), 4)], nodes[draw(pick) % len(nodes)]
        kind = draw(st.integers(0, 4))
        if kind == 0:
            value = ex.tanh(x)
        elif kind == 1:
            value = ex.concatenate([x, ex.sin(y)]) if x.size + y.size < 4000 else x.sum() * y
        elif kind == 2:
            value = ex.tensor(random.normal(size=(draw(st.integers(1, 60)), x.size))) @ x
        elif kind == 3:
            value = x[: max(1, x.size // 2)] * 2.0
        else:
            value = x.reshape((1, x.size)).reshape((x.size,)) + y.sum()
        nodes.append(value)
    return [nodes[-1], *[nodes[draw(pick) % len(nodes)] for _ in range(draw(st.integers(0, 2)))]]
