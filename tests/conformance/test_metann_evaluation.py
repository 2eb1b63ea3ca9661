"""MetaNN's evaluation: chains of responsibility, the fused loss gradient, numerical stability, characteristics."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import explorer as ex
from explorer.core import registry
from explorer.core.types.tensor_type import Array
from explorer.ops.elementwise.unary import Exp, Log

X = np.array([[0.5, -1.0, 2.0], [0.0, 3.0, -0.25]])
LARGE = (1e4, -1e4, 0.0, 3.0)


@pytest.fixture(autouse=True)
def _tables() -> Iterator[None]:
    """Restore the chain of rules and the registry after each test."""
    chain, tables = list(ex.Rule.rules), (registry.operations, registry.functions, registry.extensions)
    held = [dict(table) for table in tables]
    yield
    ex.Rule.rules[:] = chain
    for table, before in zip(tables, held, strict=True):
        table.clear()
        table.update(before)  # type: ignore[arg-type]


def planned(*roots: ex.Expr, **options: Any) -> tuple[list[Array], list[Any]]:
    """Return the values of a plan and its decisions."""
    plan = ex.EvalPlan(**options)
    handles = [plan.register(root) for root in roots]
    plan.eval()
    return [handle.data() for handle in handles], plan.recording.decisions


def codes(decisions: list[Any], verdict: str = "applied") -> list[str]:
    return [decision.code for decision in decisions if decision.verdict == verdict]


@pytest.mark.spec("M-E2", headline=True)
@pytest.mark.parametrize("rebuilt", [False, True])
def test_a_product_written_a_thousand_times_is_computed_once(rebuilt: bool) -> None:
    """Compute a product once if it is used or written a thousand times; each merge is a decision."""
    a, b = ex.tensor(X), ex.tensor(X.T)
    product = a @ b
    products = [a @ b if rebuilt else product for _ in range(1000)]
    plan = ex.EvalPlan()
    handles = [plan.register(each) for each in products]
    plan.eval()
    assert [kernel.nodes[-1].operation.name for kernel in plan.planned.schedule.kernels] == ["matmul"]
    merged = [decision for decision in plan.recording.decisions if decision.code == "merged"]
    assert [decision.facts["count"] for decision in merged] == [1000] * rebuilt
    for handle in handles:
        np.testing.assert_array_equal(handle.data(), X @ X.T)


@pytest.mark.spec("M-E5")
def test_log_of_exp_is_computed_by_the_first_matching_rule() -> None:
    """log(exp(x)) is x: it returns 1000 where exp overflows, computes nothing, and the decision names the rule."""
    given = np.array([1000.0, -1000.0, 0.5])
    (value,), decisions = planned(ex.log(ex.exp(ex.tensor(given))))
    np.testing.assert_array_equal(value, given)
    assert [(d.rule, d.verdict) for d in decisions if d.code == "log_exp"] == [("LogOfExp", "applied")]
    with np.errstate(over="ignore", divide="ignore"):
        (general,), _ = planned(ex.log(ex.exp(ex.tensor(given))), without=["simplify"])
    np.testing.assert_array_equal(general, [np.inf, -np.inf, 0.5])


@pytest.mark.spec("M-E5", headline=True)
def test_rules_are_tried_in_order_and_the_first_match_applies() -> None:
    """Try rules in order: the first match applies, and the rules that declined before it are recorded."""

    def declare(name: str, answer: Callable[[ex.Expr, ex.Expr], Any]) -> None:
        def match(self: Any, node: ex.Expr, graph: Any) -> Any:
            (y,) = graph.operands(node)
            return answer(node, graph.operands(y)[0]) if isinstance(y.operation, Exp) else None

        members = {"__doc__": "A test's rule.", "roots": (Log,), "numerics": "exact", "match": match}
        type(name, (ex.Rule,), members)

    ex.Rule.rules[:] = [rule for rule in ex.Rule.rules if rule.name != "LogOfExp"]
    declare("Wary", lambda node, x: ex.Declined("wary", "{x} has {size} elements", {"x": x, "size": x.size}))
    declare("Taking", lambda node, x: ex.Applied(x, "it is {x}", {"x": x}, "taken"))
    declare("Late", lambda node, x: ex.Applied(x * 1.0, "too late", {}, "late"))
    x = ex.tensor(X)
    (value,), decisions = planned(ex.log(ex.exp(x)))
    np.testing.assert_array_equal(value, X)
    asked = [(d.rule, d.code, d.verdict) for d in decisions if d.rule in ("Wary", "Taking", "Late")]
    assert asked == [("Wary", "wary", "declined"), ("Taking", "taken", "applied")]
    (wary,) = [d for d in decisions if d.code == "wary"]
    assert wary.facts["size"] == 6


@pytest.mark.spec("M-E5")
def test_the_general_method_is_the_end_of_the_chain() -> None:
    """If every rule declines or does not match, the operation is computed as written."""
    x = ex.tensor(X)
    (value,), decisions = planned(ex.exp(ex.log(x)))
    with np.errstate(invalid="ignore", divide="ignore"):
        np.testing.assert_array_equal(value, np.exp(np.log(X)))
    assert "domain" in codes(decisions, "declined")
    (value,), decisions = planned(ex.log(ex.tanh(ex.exp(x))))
    np.testing.assert_allclose(value, np.log(np.tanh(np.exp(X))), rtol=1e-14)
    assert not {"log_exp", "log_softmax", "log_sigmoid"} & set(codes(decisions))


def log_softmax(x: Array, axes: tuple[int, ...]) -> Any:
    shifted = x - x.max(axis=axes, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axes, keepdims=True))


def loss_gradient(logits: Array, weights: Array, scale: float, axes: tuple[int, ...]) -> Any:
    """Return (s·Σ w over the axes − w)·g / Σ w in float64, which does not divide by s."""
    s = np.exp(log_softmax(logits, axes))
    return (s * weights.sum(axis=axes, keepdims=True) - weights) * scale / weights.sum()


SOFTMAX_AXES = [(-1,), (0,), (0, 1)]


@pytest.mark.spec("M-E6", headline=True)
@pytest.mark.parametrize("axes", SOFTMAX_AXES)
@given(
    arrays(np.float64, (3, 4), elements=st.floats(-5, 5)),
    arrays(np.float64, (3, 4), elements=st.floats(0.1, 2)),
    st.floats(-3, 3),
)
def test_the_fused_gradient_of_the_loss_equals_the_general_path(
    axes: tuple[int, ...], logits: Array, weights: Array, scale: float
) -> None:
    """Fuse SoftmaxGrad ∘ NLLLossGrad to the same value as the general path, with any weights, scale and axes."""

    def write() -> ex.Expr:
        y = ex.softmax(ex.tensor(logits), axes)
        return ex.softmax_gradient(ex.nll_loss_gradient(scale, ex.tensor(weights), y), y, axes)

    (fused,), decisions = planned(write())
    (general,), _ = planned(write(), without=["simplify"])
    assert "nll_gradient" in codes(decisions)
    np.testing.assert_allclose(fused, general, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fused, loss_gradient(logits, weights, scale, axes), rtol=1e-9, atol=1e-13)


@pytest.mark.spec("M-E6", "M-E7")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("axes", SOFTMAX_AXES)
def test_the_fused_gradient_is_finite_where_probabilities_are_zero(axes: tuple[int, ...], dtype: Any) -> None:
    """Logits of ±1e4 give probabilities of 0, by which the general path divides; the fused gradient is correct."""
    for row in itertools.permutations(LARGE, 4):
        logits = np.array([row, row[::-1]])
        weights = np.array([[0.0, 1.0, 2.0, 0.5], [3.0, 0.0, 0.0, 1.0]])

        def write(logits: Array = logits, weights: Array = weights) -> ex.Expr:
            x = ex.tensor(logits.astype(dtype))
            y = ex.softmax(x, axes)
            return ex.softmax_gradient(ex.nll_loss_gradient(0.5, ex.tensor(weights.astype(dtype)), y), y, axes)

        expected = loss_gradient(logits, weights, 0.5, axes)
        (fused,), _ = planned(write())
        assert fused.dtype == dtype
        np.testing.assert_allclose(fused, expected, rtol=1e-12 if dtype == np.float64 else 1e-5, atol=1e-7)
    (general,), _ = planned(write(), without=["simplify"])
    assert not np.isfinite(general).all()


EXTREME = np.array([[1e4, -1e4, 0.0, 3.0], [-1e4, 1e4, 1e4, -3.0], [0.5, 0.0, -1e4, -0.5]])
TRUTH = np.array([[0.0, 1.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.2, 0.3, 0.4, 0.1]])


def cross_entropy(truth: Any, probability: Any) -> Any:
    return -(truth * ex.log(probability) + (1 - truth) * ex.log(1 - probability)).sum()


STABLE: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "log(softmax(x))": (
        lambda x: ex.log(ex.softmax(x)),
        log_softmax(EXTREME, (1,)),
        1 - 4 * np.exp(log_softmax(EXTREME, (1,))),
    ),
    "NLL(softmax(x))": (
        lambda x: ex.nll_loss(ex.tensor(TRUTH.astype(x.dtype)), ex.softmax(x)),
        -(TRUTH * log_softmax(EXTREME, (1,))).sum() / TRUTH.sum(),
        loss_gradient(EXTREME, TRUTH, 1.0, (1,)),
    ),
    "sigmoid and cross-entropy": (
        lambda x: cross_entropy(TRUTH.astype(x.dtype), ex.sigmoid(x)),
        (TRUTH * np.logaddexp(0, -EXTREME) + (1 - TRUTH) * np.logaddexp(0, EXTREME)).sum(),
        np.exp(-np.logaddexp(0, -EXTREME)) - TRUTH,
    ),
    "log(1 + exp(x))": (
        lambda x: ex.log(1 + ex.exp(x)),
        np.logaddexp(0, EXTREME),
        np.exp(-np.logaddexp(0, -EXTREME)),
    ),
    "log(Σ exp(x))": (
        lambda x: ex.log(ex.exp(x).sum(axis=1)),
        np.logaddexp.reduce(EXTREME, 1),
        np.exp(log_softmax(EXTREME, (1,))),
    ),
    "log(exp(x))": (lambda x: ex.log(ex.exp(x)), EXTREME, np.ones_like(EXTREME)),
    "exp(x) / Σ exp(x)": (
        lambda x: ex.exp(x) / ex.exp(x).sum(axis=1, keepdims=True),
        np.exp(log_softmax(EXTREME, (1,))),
        np.zeros_like(EXTREME),
    ),
    "1 / (1 + exp(−x))": (
        lambda x: 1 / (1 + ex.exp(-x)),
        np.exp(-np.logaddexp(0, -EXTREME)),
        np.exp(-np.logaddexp(0, -EXTREME) - np.logaddexp(0, EXTREME)),
    ),
    "log(1 − exp(x) / (1 + exp(x)))": (
        lambda x: ex.log(1 - ex.exp(x) / (1 + ex.exp(x))),
        -np.logaddexp(0, EXTREME),
        -np.exp(-np.logaddexp(0, -EXTREME)),
    ),
}


@pytest.mark.spec("M-E7", "P-12", headline=True)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STABLE)
def test_compositions_are_stable_by_planning(name: str, dtype: Any) -> None:
    """Compute plainly written losses in stable forms; at ±1e4 values and gradients are finite and correct."""
    write, value, slope = STABLE[name]

    def both() -> tuple[ex.Expr, ex.Expr]:
        x = ex.tensor(EXTREME.astype(dtype))
        y = write(x)
        return y, ex.grad(y, x, seed=np.ones(y.shape, dtype))

    result, gradient = planned(*both())[0]
    tolerance = {"rtol": 1e-12, "atol": 1e-14} if dtype == np.float64 else {"rtol": 2e-6, "atol": 2e-6}
    np.testing.assert_allclose(result, value, **tolerance)
    np.testing.assert_allclose(gradient, slope, **tolerance)
    with np.errstate(all="ignore"):
        plain, slope = planned(*both(), without=["simplify"])[0]
    assert name == "1 / (1 + exp(−x))" or not np.isfinite(plain).all()
    np.testing.assert_allclose(gradient, slope, **tolerance)  # the gradient was taken of the stable form


@pytest.mark.spec("M-E7")
def test_roots_of_squares_and_exponentials_of_logarithms() -> None:
    """√(x²) is |x| where x² overflows, exp(log x) is x for positive x; both have decisions."""
    x = ex.tensor(np.array([1e200, -1e200, 0.0, -2.5]))
    (value,), decisions = planned(np.sqrt(np.square(x)))
    np.testing.assert_array_equal(value, np.abs(x.array))
    assert "sqrt_square_absolute" in codes(decisions)
    (value,), decisions = planned(ex.exp(ex.log(ex.exp(x / 1e200))))
    np.testing.assert_allclose(value, np.exp(x.array / 1e200), rtol=1e-14)
    assert {"exp_log", "log_exp"} & set(codes(decisions))


CELL = """
import explorer as ex
import numpy as np

class OwnComplement(ex.Elementwise):
    "1 − x, as truth values of fuzzy logic have it."
    involution = True
    examples = (ex.Example(ex.real(2, 3, low=0.0)),)
    nondifferentiable = "the cell asks for no gradient"
    def kernel(self, out, x):
        return np.subtract(1, x, out=out)

class OwnBell(ex.Elementwise):
    "e to the power −x²."
    is_even = True
    range = "positive"
    examples = (ex.Example(ex.real(2, 3)),)
    nondifferentiable = "the cell asks for no gradient"
    def kernel(self, out, x):
        return np.exp(-np.square(x), out=out)

class OwnStep(ex.Elementwise):
    "x in steps of one half."
    idempotent = True
    monotone = True
    defined_everywhere = True
    examples = (ex.Example(ex.real(2, 3)),)
    nondifferentiable = "a step is constant wherever it has a derivative"
    def kernel(self, out, x):
        return np.divide(np.floor(x * 2), 2, out=out)

class OwnJoin(ex.Elementwise):
    "The larger of two truth values."
    commutative = True
    associative = True
    idempotent = True
    examples = (ex.Example(ex.real(2, 3), ex.real(3)),)
    nondifferentiable = "the cell asks for no gradient"
    def kernel(self, out, a, b):
        return np.maximum(a, b, out=out)

class OwnBlend(ex.Elementwise):
    "a + b − ab."
    commutative = True
    examples = (ex.Example(ex.real(2, 3), ex.real(3)),)
    nondifferentiable = "the cell asks for no gradient"
    def kernel(self, out, a, b):
        return np.subtract(a + b, a * b, out=out)

complement, bell, step, join, blend = OwnComplement(), OwnBell(), OwnStep(), OwnJoin(), OwnBlend()
"""


def cell(without: str = "") -> dict[str, Any]:
    """Return the names that the cell defines, with one characteristic removed from its declarations."""
    code = "".join([line for line in CELL.splitlines(keepends=True) if not line.startswith(f"    {without} =")])
    if without == "elementwise":
        code = code.replace('."\n', '."\n    elementwise = False\n')
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "<cell 3>", "exec"), space)
    return space


USES: list[tuple[str, str, Callable[..., Any]]] = [
    ("involution", "involution", lambda f, a, b: f["complement"](f["complement"](a))),
    ("is_even", "even", lambda f, a, b: f["bell"](-a)),
    ("is_even", "even", lambda f, a, b: f["bell"](np.abs(a))),
    ("range", "exp_log", lambda f, a, b: ex.exp(ex.log(f["bell"](a)))),
    ("range", "sqrt_square", lambda f, a, b: np.sqrt(np.square(f["bell"](a)))),
    ("idempotent", "idempotent", lambda f, a, b: f["step"](f["step"](a))),
    ("monotone", "extreme_before_monotone", lambda f, a, b: f["step"](a).max(axis=1)),
    ("idempotent", "idempotent", lambda f, a, b: f["join"](a, a)),
    ("associative", "absorbed", lambda f, a, b: f["join"](f["join"](a, b), b)),
    ("associative", "absorbed", lambda f, a, b: f["join"](a, f["join"](a, b))),
    ("commutative", "commuted", lambda f, a, b: ex.stack([f["blend"](a, b), f["blend"](b, a)])),
    ("elementwise", "chain", lambda f, a, b: f["bell"](f["complement"](a) * 2.0)),
]


@pytest.mark.spec("M-E9", "M-O4", headline=True)
@pytest.mark.parametrize(("characteristic", "code", "write"), USES)
def test_declared_characteristics_of_a_user_defined_operation_are_used(
    characteristic: str, code: str, write: Callable[..., Any]
) -> None:
    """Use the characteristics that an operation declares; each use is a decision and keeps the values."""
    space = cell()

    def fresh() -> ex.Expr:
        return write(space, ex.tensor(X), ex.tensor(X[::-1] * 0.75))

    (value,), decisions = planned(fresh())
    (general,), _ = planned(fresh(), without=["simplify", "dedup", "fuse"])
    np.testing.assert_allclose(value, general, rtol=1e-14)
    assert code in codes(decisions)
    text = next(decision for decision in decisions if decision.code == code)
    assert text.reason
    assert text.facts or text.subjects

    with pytest.warns(ex.OperationRedefined):
        space = cell(without=characteristic)
    (value,), decisions = planned(fresh())
    np.testing.assert_allclose(value, general, rtol=1e-14)
    assert code not in codes(decisions)


@pytest.mark.spec("M-E9")
def test_an_insufficient_characteristic_is_a_declined_decision() -> None:
    """A monotone operation not declared total stays before the maximum, with the reason."""
    space = cell(without="defined_everywhere")
    (value,), decisions = planned(space["step"](ex.tensor(X)).max(axis=1))
    np.testing.assert_array_equal(value, [2.0, 3.0])
    (refusal,) = [d for d in decisions if d.rule == "ExtremeBeforeMonotone"]
    assert (refusal.verdict, refusal.code) == ("declined", "domain")
    assert refusal.facts["f"] == "own_step"
