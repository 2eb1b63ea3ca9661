"""Factors that divide what they multiply are cancelled: second gradients are as stable as first ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.plan.rewrite.rules.asking import applied, close, simplified, values
from tests.support.saturation import SIGMOIDS, SOFTMAXES, SOFTPLUSES, TRUTH, X, bce, sigmoid_of_power

Program = Callable[[Any], Any]
t = ex.tensor(TRUTH)


def stable_bce(x: Any) -> Any:
    return (t * ex.softplus(-x) + (1 - t) * ex.softplus(x)).mean()


SUMS = SOFTMAXES[0], SOFTMAXES[1], SOFTMAXES[3]
SINGLE = SIGMOIDS[0], SIGMOIDS[1], SIGMOIDS[3]
WRITTEN: dict[str, tuple[Program, Program]] = {
    **{f"softmax {i}": (f, ex.softmax) for i, f in enumerate(SUMS)},
    **{f"sigmoid {i}": (f, ex.sigmoid) for i, f in enumerate((*SINGLE, sigmoid_of_power))},
    **{f"softplus {i}": (f, ex.softplus) for i, f in enumerate(SOFTPLUSES)},
    **{f"log softmax {i}": (lambda x, f=f: ex.log(f(x)), ex.log_softmax) for i, f in enumerate(SUMS)},
    **{f"log sigmoid {i}": (lambda x, f=f: ex.log(f(x)), lambda x: -ex.softplus(-x)) for i, f in enumerate(SINGLE)},
    "log 1 − sigmoid": (lambda x: ex.log(1 - ex.sigmoid(x)), lambda x: -ex.softplus(x)),
    "logsumexp": (lambda x: ex.log(ex.exp(x).sum(axis=1)), lambda x: ex.logsumexp(x, 1)),
    "logsumexp kept": (lambda x: ex.log(ex.exp(x).sum(axis=0, keepdims=True)), lambda x: ex.logsumexp(x, 0)),
    "nll": (lambda x: ex.nll_loss(t, ex.softmax(x)), lambda x: -(t * ex.log_softmax(x)).sum() / t.sum()),
    "nll by hand": (lambda x: -(t * ex.log(SOFTMAXES[1](x))).sum(), lambda x: -(t * ex.log_softmax(x)).sum()),
    "bce": (lambda x: bce(t, ex.sigmoid(x)), stable_bce),
    "bce by hand": (lambda x: bce(t, SIGMOIDS[1](x)), stable_bce),
}


def second(program: Program, x: ex.Expr) -> ex.Expr:
    """Σ direction · gradient, derived once more."""
    y = program(x)
    random = np.random.default_rng(0)
    gradient = ex.grad(y, x, seed=random.normal(size=y.size).reshape(y.shape))
    return ex.grad(gradient, x, seed=random.normal(size=x.shape))


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("name", WRITTEN)
def test_second_gradients_are_those_of_the_stable_operations(name: str) -> None:
    """At ±10⁴ the second gradient of a composition is finite, and that of the stable operation beside it."""
    written, stable = WRITTEN[name]
    x = ex.tensor(X)
    result, expected = ex.evaluate(second(written, x)), ex.evaluate(second(stable, x), without=["simplify"])
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", WRITTEN)
def test_second_gradients_of_moderate_numbers_keep_their_value(name: str) -> None:
    """Where nothing overflows the second gradient is what it is without any simplification."""
    x = values((4, 4), low=-3.0, high=3.0)
    root = second(WRITTEN[name][0], x)
    np.testing.assert_allclose(ex.evaluate(root), ex.evaluate(root, without=["simplify"]), rtol=1e-8, atol=1e-12)


x, n, m = values((3, 4), low=-2.0), values((3, 4), low=-1.0), values((4,))
s, p, e = ex.sigmoid(x), ex.softmax(x), ex.exp(x)
total, kept = e.sum(axis=1), e.sum(axis=1, keepdims=True)


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.parametrize(
    "root",
    [
        (n / s) * (m * s),
        -(m * s * n) * (n / s),
        (n / p) * (m * (p * n)),
        (n / (1 - s)) * ((1 - s) * m),
        (n / (1 - s)) * ex.sigmoid_gradient(m * n, s),
        (n * s * m) / s,
        (n * e) / (1 + e),
        (m * e * e) / ((1 + e) * (e + 1)),
        (n * e) / kept,
        (n / (1 + e)) * (m * e),
        n * ((m * e).sum(axis=1) / total).reshape((3, 1)),
        n * ((m * e).sum(axis=1).reshape((3, 1)) / kept),
        (ex.broadcast_to((m * e).sum(axis=1, keepdims=True), (3, 4)) * n) / kept,
        (n / s) * ((s * m - n * s) * m),
    ],
    ids=repr,
)
def test_what_stands_on_both_sides_of_a_fraction_is_cancelled(root: ex.Expr) -> None:
    """A positive factor above and below, powers over their sums, and terms that all have the factor."""
    graph = simplified(root)
    assert "powers_cancelled" in applied(graph)
    assert close(root, rtol=1e-11)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    "root",
    [
        (n / x) * (m * x),
        (n * s) / (s * s * m),
        (s * s * n) / (s * s * s),
        (n * x) / x,
        (n / s) * (m * ex.sigmoid(n)),
        (n * e) / (2 + e),
        (n * e) / e.sum(axis=0, keepdims=True) * 0.5 / ex.exp(n).sum(axis=1, keepdims=True),
        n * ((m * e).sum(axis=1) / ex.exp(n).sum(axis=1)).reshape((3, 1)),
        (n / s) * ((s * m - n) * m),
        ex.cast(n / s, "float32") * ex.cast(m * s, "float32"),
        (ex.tensor(np.array([1 + 2j, 3 - 1j])) * ex.exp(ex.tensor(np.array([0.5j, 1 - 1j])))) / (1 + ex.exp(m[:2])),
    ],
    ids=repr,
)
def test_what_may_be_zero_or_differs_stays(root: ex.Expr) -> None:
    """What may be 0, what leaves 1 / s, another value of its kind, a sum of which only some terms have s: stay."""
    assert close(root, rtol=1e-6 if root.dtype == np.float32 else 1e-11)


@pytest.mark.spec("P-1", "P-12")
def test_a_factor_is_cancelled_as_often_as_it_stands_above() -> None:
    """s / (s · s) is 1 / s, not 1."""
    root = (n * s) / (s * s)
    assert close(root)
    np.testing.assert_allclose(ex.evaluate(root), n.array / ex.evaluate(s), rtol=1e-12)
