"""±1e4 through softmax, log, NLL, sigmoid, softplus and logsumexp: finite, and equal to a float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.plan.rewrite.rules.asking import applied, close, declined, simplified
from tests.support.interpreter import reference
from tests.support.saturation import (
    SIGMOIDS,
    SOFTMAXES,
    SOFTPLUSES,
    TRUTH,
    X,
    bce,
    bce_layer,
    exp_layer,
    log_layer,
    nll_layer,
    sigmoid_by_hand,
    sigmoid_of_power,
    softmax_by_hand,
)

SEED = np.random.default_rng(0).normal(size=X.shape)


def logsumexp(x: Any, axis: Any = -1) -> Any:
    largest = x.max(axis=axis, keepdims=True)
    return largest + np.log(np.exp(x - largest).sum(axis=axis, keepdims=True))


def logistic(x: Any) -> Any:
    return np.exp(-np.logaddexp(0, -x))


SHIFTED = X - X.max(axis=-1, keepdims=True)
LOG_P = SHIFTED - np.log(np.exp(SHIFTED).sum(axis=-1, keepdims=True))
P, S, C = np.exp(LOG_P), logistic(X), logistic(-X)
LOG_S, LOG_C = -np.logaddexp(0, -X), -np.logaddexp(0, X)
NLL = -(TRUTH * LOG_P).sum() / TRUTH.sum()
TO_NLL = (P * TRUTH.sum(-1, keepdims=True) - TRUTH) / TRUTH.sum()
TO_LOG_SOFTMAX = SEED - P * SEED.sum(-1, keepdims=True)
BCE = -(TRUTH * LOG_S + (1 - TRUTH) * LOG_C).mean()
ENTROPY = -(P * LOG_P).sum()
TO_ENTROPY = -P * (LOG_P - (LOG_P * P).sum(-1, keepdims=True))


def finite_and_right(value: ex.Expr, expected: Any) -> None:
    result = ex.evaluate(value)
    assert np.isfinite(result).all()
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


def overflows(value: ex.Expr) -> bool:
    """Return whether a value overflows as written; its gradient is always taken of the stable form."""
    return not np.isfinite(ex.evaluate(value, without=["simplify"])).all()


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_log_softmax_nll_and_entropy(softmax: Callable[[Any], Any]) -> None:
    x, t = ex.tensor(X), ex.tensor(TRUTH)
    p = softmax(x)
    finite_and_right(p, P)
    finite_and_right(ex.grad(p, x, seed=SEED), P * (SEED - (SEED * P).sum(-1, keepdims=True)))
    for log_p in (ex.log(p), log_layer(p)):
        finite_and_right(log_p, LOG_P)
        finite_and_right(ex.grad(log_p, x, seed=SEED), TO_LOG_SOFTMAX)
        assert overflows(log_p)
    for loss in (ex.nll_loss(t, p), nll_layer(t, p), -(t * ex.log(p)).sum() / t.sum()):
        finite_and_right(loss, NLL)
        finite_and_right(ex.grad(loss, x), TO_NLL)
        finite_and_right(ex.grad(2.0 * loss, x), 2 * TO_NLL)
        assert overflows(loss)
    entropy = -(p * ex.log(p)).sum()
    finite_and_right(entropy, ENTROPY)
    finite_and_right(ex.grad(entropy, x), TO_ENTROPY)
    finite_and_right(ex.grad(entropy + ex.nll_loss(t, p), x), TO_ENTROPY + TO_NLL)


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 4), (2, 1, 3)])
@pytest.mark.parametrize("leading", [1, None])
def test_exponentials_divided_by_a_broadcast_sum(shape: tuple[int, ...], leading: int | None) -> None:
    """A softmax over leading or all axes is recognized without kept axes, because broadcasting aligns its sum."""
    values = np.random.default_rng(0).normal(size=shape) * 1e4
    x, axes = ex.tensor(values), tuple(range(len(shape)))[:leading]
    p = ex.exp(x) / ex.exp(x).sum(axis=axes)
    powers = np.exp(values - values.max(axes, keepdims=True))
    finite_and_right(p, powers / powers.sum(axes, keepdims=True))
    assert overflows(p)


@pytest.mark.spec("P-12", "M-E7")
def test_a_quotient_of_two_powers_is_the_power_of_a_difference() -> None:
    """exp(x) / exp(y) divides neither ∞ by ∞ nor 0 by 0; a softmax over an axis of one element has this form."""
    x, y = ex.tensor(X), ex.tensor(X - 1.5)
    finite_and_right(ex.exp(x) / ex.exp(y), np.full(X.shape, np.exp(1.5)))
    assert overflows(ex.exp(x) / ex.exp(y))
    single = x.reshape((16, 1))
    p = softmax_by_hand(single)
    finite_and_right(p, np.ones((16, 1)))
    finite_and_right(ex.log(p), np.zeros((16, 1)))
    total = ex.log(ex.exp(single).sum(axis=1))
    finite_and_right(ex.grad(total, x, seed=np.arange(16.0)), np.arange(16.0).reshape(4, 4))
    assert overflows(p)
    mixed = ex.exp(ex.tensor(X.astype("float32"))) / ex.exp(y)
    assert ("QuotientOfExponentials", "dtype") in declined(simplified(mixed))


@pytest.mark.spec("P-12", "M-E7")
def test_the_gradient_of_log_sigmoid_is_accurate_where_the_sigmoid_rounds_to_one() -> None:
    """1 − sigmoid(x) in the gradient becomes sigmoid(−x), so that even 10⁻³⁰⁰ is accurate."""
    values = np.array([-700.0, 0.5, 33.8, 40.0, 700.0])
    x = ex.tensor(values)
    for s in (ex.sigmoid(x), sigmoid_by_hand(x)):
        slope = ex.evaluate(ex.grad(ex.log(s), x, seed=np.ones(5)))
        np.testing.assert_allclose(slope, np.exp(-np.logaddexp(0, values)), rtol=1e-12)


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_no_stable_form_creates_a_nan(dtype: str) -> None:
    """For ±∞, NaN and both zeros, a stable form and its gradient are NaN only if the formula as written is."""
    specials = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -2.0, 3.0], dtype)
    x = ex.tensor(np.stack([np.roll(specials, shift)[:2] for shift in range(8)] + [specials[3:5], specials[5:7]]))
    programs: list[Callable[[Any], Any]] = [*SOFTMAXES[:2], *SIGMOIDS, sigmoid_of_power, *SOFTPLUSES]
    programs += [lambda x, f=f: ex.log(f(x)) for f in (*SOFTMAXES[:2], *SIGMOIDS)]
    programs += [lambda x, f=f: ex.log(1 - f(x)) for f in SIGMOIDS]
    programs += [lambda x: ex.log(ex.exp(x).sum(axis=1)), lambda x: ex.log(ex.exp(x)), lambda x: ex.exp(x) / ex.exp(x)]
    for program in programs:
        y = program(x)
        for root in (y, ex.grad(y, x, seed=np.ones(y.shape, dtype))):
            result, (written,) = ex.evaluate(root), reference([root])
            assert not (np.isnan(result) & ~np.isnan(written)).any()
            known = np.isfinite(written)
            np.testing.assert_allclose(result[known], written[known], rtol=1e-4, atol=1e-6)


@pytest.mark.spec("P-12", "M-E7")
def test_exponentials_over_another_axis_are_kept() -> None:
    """A sum that broadcasting aligns with another axis is no softmax, and has a declined decision."""
    x = ex.tensor(np.arange(9.0).reshape(3, 3))
    across = ex.exp(x) / ex.exp(x).sum(axis=1)
    assert declined(simplified(across)) == [("QuotientOfExponentials", "other_sum")]
    powers = np.exp(x.array)
    finite_and_right(across, powers / powers.sum(1))


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("sigmoid", [*SIGMOIDS, sigmoid_of_power])
def test_log_sigmoid(sigmoid: Callable[[Any], Any]) -> None:
    x = ex.tensor(X)
    s = sigmoid(x)
    finite_and_right(s, S)
    finite_and_right(ex.grad(s, x, seed=SEED), SEED * S * C)
    finite_and_right(ex.log(s), LOG_S)
    finite_and_right(ex.grad(ex.log(s), x, seed=SEED), SEED * C)
    finite_and_right(ex.log(1 - s), LOG_C)
    finite_and_right(ex.grad(ex.log(1 - s), x, seed=SEED), -SEED * S)
    finite_and_right(ex.grad(bce(ex.tensor(TRUTH), s), x), (S - TRUTH) / X.size)


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_sigmoid_and_cross_entropy(sigmoid: Callable[[Any], Any]) -> None:
    x, t = ex.tensor(X), ex.tensor(TRUTH)
    s = sigmoid(x)
    finite_and_right(ex.grad(ex.log(1 - s), x, seed=SEED), -SEED * S)
    for loss in (bce(t, s), bce_layer(t, s)):
        finite_and_right(loss, BCE)
        finite_and_right(ex.grad(loss, x), (S - TRUTH) / X.size)
        assert overflows(loss)


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize("softplus", SOFTPLUSES)
def test_softplus(softplus: Callable[[Any], Any]) -> None:
    x = ex.tensor(X)
    finite_and_right(softplus(x), -LOG_C)
    finite_and_right(ex.grad(softplus(x), x, seed=SEED), SEED * S)
    assert overflows(softplus(x))


@pytest.mark.spec("P-12", "M-E7")
@pytest.mark.parametrize(("axis", "keepdims"), [(-1, False), (-1, True), (0, False), (None, False), ((0, 1), True)])
def test_log_of_a_sum_of_exponentials(axis: Any, keepdims: bool) -> None:
    x = ex.tensor(X)
    expected = logsumexp(X, axis)
    for value in (
        ex.log(ex.exp(x).sum(axis=axis, keepdims=keepdims)),
        log_layer(exp_layer(x).sum(axis=axis, keepdims=keepdims)),
    ):
        finite_and_right(value, expected.reshape(value.shape))
        seed = np.random.default_rng(1).normal(size=value.shape)
        finite_and_right(ex.grad(value, x, seed=seed), seed.reshape(expected.shape) * np.exp(X - expected))
        assert overflows(value)


@pytest.mark.spec("P-12", "M-E6", "M-E7", "P-4")
def test_a_batch_of_losses_is_as_stable_as_a_single_loss() -> None:
    random = np.random.default_rng(3)
    samples, labels = random.choice([1e4, -1e4, 0.0, 2.0], size=(60, 5)), np.eye(5)[random.integers(0, 5, 60)]
    weights = ex.tensor(random.normal(size=(5, 5)), name="w")
    loss = ex.function(lambda x, t, w: ex.nll_loss(t, ex.softmax(x @ w)))
    total = ex.add_n(*[loss(ex.tensor(x), ex.tensor(t), weights) for x, t in zip(samples, labels, strict=True)])
    z = samples @ weights.array
    log_p = z - logsumexp(z)
    plan = ex.EvalPlan()
    value, gradient = plan.register(total), plan.register(ex.grad(total, weights))
    plan.eval()
    np.testing.assert_allclose(value.data(), -(log_p * labels).sum(), rtol=1e-10)
    np.testing.assert_allclose(gradient.data(), samples.T @ (np.exp(log_p) - labels), rtol=1e-9)
    assert "batched" in [decision.code for decision in plan.planned.graph.decisions if decision.applied]


@pytest.mark.spec("M-E6")
def test_the_gradient_of_nll_of_softmax_includes_the_sum_of_weights() -> None:
    """MetaNN omits it."""
    logits, weights = ex.tensor(np.linspace(-1, 1, 12).reshape(3, 4)), ex.tensor(np.arange(1.0, 13).reshape(3, 4))
    gradient = ex.grad(ex.nll_loss(weights, ex.softmax(logits)), logits, seed=0.5)
    assert "differentiated" in applied(simplified(gradient))
    np.testing.assert_allclose(ex.evaluate(gradient), ex.evaluate(gradient, without=["simplify"]), rtol=1e-12)


@pytest.mark.spec("P-1", "M-E6")
def test_the_gradient_through_another_softmax_keeps_its_value() -> None:
    x, t = ex.tensor(X[2:3]), ex.tensor(TRUTH[2:3])
    from explorer.ops.nn.nll_loss import NllLossGradient
    from explorer.ops.nn.softmax import SoftmaxGradient

    upstream = NllLossGradient()(ex.tensor(1.0), t, ex.softmax(x * 2.0))
    assert close(SoftmaxGradient((1,))(upstream, ex.softmax(x)))


x64, x32 = ex.tensor(X[2:3]), ex.tensor(X[2:3].astype("float32"))
ones64 = ex.TrivialTensor(1.0, (1, 4), dtype="float64")
complex_ = ex.tensor(np.array([[1 + 2j, 0.5 - 4j]]))
small = ex.tensor(np.array([[1, 5, 3]], np.uint8))


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.parametrize(
    "root",
    [
        ex.log(ones64 + ex.exp(x32)),
        ex.log(ex.TrivialTensor(1.0, (3, 4), dtype="float32") + ex.exp(x32)),
        ex.log(ex.sigmoid(small)),
        ex.log(1 - ex.sigmoid(small)),
        ex.log(ex.softmax(small)),
        ex.log(ex.exp(small).sum(axis=1)),
        ex.log1p(ex.exp(small)),
        ex.exp(small) / ex.exp(small).sum(),
        1 / (1 + ex.exp(small)),
        ex.log(ex.exp(complex_).sum(axis=1)),
        ex.log(1 + ex.exp(complex_)),
        ex.exp(complex_) / ex.exp(complex_).sum(),
        1 / (1 + ex.exp(complex_)),
        ex.nll_loss(ex.tensor(np.array([[True, False, False, True]])), ex.softmax(x32)),
        ex.nll_loss(ex.tensor(np.array([[1, 0, 0, 1]], np.int8)), ex.softmax(x32)),
        ex.nll_loss(ex.tensor(np.array([[1, 0, 0, 1]])), ex.softmax(x32)),
        ex.grad(ex.nll_loss(ex.tensor(np.array([[True, False, False, True]])), ex.softmax(x32)), x32),
        ex.grad(ex.nll_loss(ex.tensor(np.array([[1, 0, 0, 1]])), ex.softmax(x32)), x32),
        ex.grad(ex.log(ones64 + ex.exp(x32)), x32, seed=np.ones((1, 4))),
        ex.grad(ex.log(ex.TrivialTensor(1.0, (3, 4), dtype="float64") + ex.exp(x64)).sum(), x64),
    ],
    ids=repr,
)
def test_stable_forms_keep_the_written_dtype_and_shape(root: ex.Expr) -> None:
    assert close(root, rtol=1e-2 if root.dtype == np.float16 else 1e-6)


@pytest.mark.spec("P-1", "P-12")
@pytest.mark.parametrize(
    "build",
    [
        lambda x: ex.exp(x) / ex.exp(x).sum(axis=1),
        lambda x: ex.exp(x) * (ex.tensor(np.arange(1.0, 5)) / ex.exp(x).sum(axis=1)),
        lambda x: ex.exp(x) / ex.exp(x).sum(axis=0).reshape((4, 1)),
        lambda x: ex.exp(x) / ex.exp(x + 1).sum(axis=1, keepdims=True),
        lambda x: (
            ex.exp(x) * ex.broadcast_to((ex.tensor(np.arange(1.0, 5)) / ex.exp(x).sum(axis=1)).reshape((1, 4)), (4, 4))
        ),
        lambda x: ex.log(ex.broadcast_to(1 + ex.exp(x[0]), (4, 4))),
        lambda x: ex.grad(ex.log(ex.exp(x).sum(axis=1)), x, seed=np.arange(4.0)),
        lambda x: ex.grad((ex.exp(x) / ex.exp(x).sum(axis=1)).sum(axis=0), x, seed=np.arange(4.0)),
        lambda x: 1 / (2 + ex.exp(x)),
        lambda x: ex.log(2 - ex.sigmoid(x)),
        lambda x: ex.log(ex.softmax(x) + 1.0),
        lambda x: ex.grad(ex.log(ex.softmax(x) * 2.0).sum(), x),
        lambda x: ex.grad((ex.softmax(x) / ex.softmax(x, 0)).sum(), x),
    ],
)
def test_similar_sums_keep_their_value(build: Callable[[Any], Any]) -> None:
    square = ex.tensor(np.random.default_rng(5).normal(size=(4, 4)))
    assert close(build(square), rtol=1e-11)


def test_sums_of_half_precision_overflow_no_earlier_than_the_loss() -> None:
    """In float16 the rewritten loss divides sums above 65,504, as the loss itself does."""
    shares, scores = ex.tensor(np.full((5, 4), 2e4, np.float16)), ex.tensor(np.zeros((5, 4), np.float16))
    loss = ex.nll_loss(shares, ex.softmax(scores))
    assert ex.evaluate(loss) == ex.evaluate(loss, without="simplify") == np.float16(np.log(4))


def test_the_log_of_a_mean_over_an_empty_axis_stays_nan() -> None:
    """The number of elements to divide by is zero."""
    mean = ex.mean(ex.exp(ex.tensor(np.ones((0, 4)))), axis=0)
    assert np.isnan(ex.evaluate(ex.log(mean))).all()


def test_a_quotient_of_powers_of_two_tensors_is_no_sigmoid() -> None:
    """exp(a) / (1 + exp(b)) is a sigmoid only if a and b are the same tensor, not just of one type."""
    a, b = ex.tensor(np.array([0.5, 1.0])), ex.tensor(np.array([2.0, -1.0]))
    np.testing.assert_allclose(ex.evaluate(ex.exp(a) / (1 + ex.exp(b))), np.exp([0.5, 1]) / (1 + np.exp([2.0, -1])))
    other = ex.exp(a) / ex.sum(ex.exp(b))
    np.testing.assert_allclose(ex.evaluate(other), np.exp([0.5, 1]) / np.exp([2.0, -1]).sum())
