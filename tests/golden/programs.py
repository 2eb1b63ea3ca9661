"""Small programs with golden recordings, whose plan decisions are meant to stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import explorer as ex
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.source_location import SourceLocation
from explorer.plan.passes import Inline


def ramp(*shape: int) -> Any:
    """Return distinct small float32 numbers."""
    size = int(np.prod(shape))
    return (np.arange(size, dtype=np.float32).reshape(shape) - size / 2) / max(size, 1)


def layer(x: Any, w: Any, b: Any) -> Any:
    return ex.tanh(x @ w + b)


def losses(x: Any, w: Any) -> Any:
    p = ex.softmax(x @ w)
    return -ex.log(p).sum(), p


def inverse_pair() -> list[Any]:
    """Return MetaNN's example log(exp(x)), together with a declined decision."""
    x = ex.tensor(ramp(2, 3), name="x")
    return [ex.log(ex.exp(x)) + 0, ex.exp(ex.log(x))]


def perceptron() -> list[Any]:
    """Return two layers, their loss and its gradients."""
    x, t = ex.tensor(ramp(4, 5), name="x"), ex.tensor(np.eye(4, 3, dtype=np.float32), name="truth")
    w1, b1 = ex.tensor(ramp(5, 6), name="w1"), ex.tensor(ramp(6), name="b1")
    w2, b2 = ex.tensor(ramp(6, 3), name="w2"), ex.tensor(ramp(3), name="b2")
    with ex.scope("net"):
        y = ex.softmax(ex.function(layer)(x, w1, b1) @ w2 + b2)
    loss = ex.nll_loss(t, y)
    return [loss, *ex.grad(loss, (w1, b1, w2, b2))]


def batch() -> list[Any]:
    """Return a batched loop over samples, with the shared parameter's gradient."""
    w, b = ex.tensor(ramp(8, 8), name="w"), ex.tensor(ramp(8), name="b")
    called = ex.function(layer)  # traced again, so that its lines are in this program
    rows = [called(ex.tensor(ramp(8) + n, name=f"x{n}"), w, b) for n in range(24)]
    loss = ex.add_n(*[row.sum() for row in rows])
    return [loss, ex.grad(loss, w)]


def declined() -> list[Any]:
    """Return operations that cannot be fused, merged or batched."""
    a, b = ex.tensor(ramp(3, 4), name="a"), ex.tensor(ramp(4), name="b")
    shared = ex.sin(a)
    return [ex.exp(shared) * ex.cos(shared), a + ex.tanh(b), a.sum(axis=0) * b, ex.tanh(a)]


def closed() -> list[Any]:
    """Return calls that are too large to open."""
    w = ex.tensor(ramp(3, 3), name="w")
    loss, p = ex.function(losses)(ex.tensor(ramp(2, 3), name="x"), w)
    return [loss, ex.relu(p), ex.grad(loss, w)]


def structured() -> list[Any]:
    """Return zeros, constants and one-hot vectors."""
    x = ex.tensor(ramp(2, 2), name="x")
    zero = ex.ZeroTensor((2, 2))
    unused = ex.tensor(ramp(2), name="unused")
    return [x + zero, x * zero + 1.0, ex.BiasVector(2, 1) @ x, ex.grad(x.sum(), unused)]


PROGRAMS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "inverse_pair": (inverse_pair, {}),
    "perceptron": (perceptron, {}),
    "batch": (batch, {}),
    "declined": (declined, {}),
    "closed": (closed, {"inline": Inline(4)}),
    "structured": (structured, {}),
}


def recorded(name: str, **further: Any) -> ex.Recording:
    """Return a program's recording, planned but not run; ``further`` are additional options of the plan."""
    build, options = PROGRAMS[name]
    plan = ex.EvalPlan(title=name, **options, **further)
    with recording_at(None, SourceLocation("golden", 1, name)):
        roots = build()
    for root in roots:
        plan.register(root)
    return plan.prepare().recording
