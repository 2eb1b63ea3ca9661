"""Channel factors and terms before a product move into its weights, so that norms before products disappear."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import TensorType
from explorer.plan import Options, plan
from explorer.run.execution.executors import run_simple
from explorer.run.execution.program import Program
from tests.plan.rewrite.rules import asking
from tests.plan.rewrite.rules.asking import applied, decision, declined, values
from tests.support.interpreter import reference
from tests.support.programs import subsets

simplified = functools.partial(asking.simplified, numerics="fast")

images = Parameter(TensorType((2, 4, 6, 6), "float64"), "images")()
rows = Parameter(TensorType((5, 4), "float64"), "rows")()
stacked = Parameter(TensorType((2, 5, 4), "float64"), "stacked")()
vector = Parameter(TensorType((4,), "float64"), "vector")()
INPUTS = (images, rows, stacked, vector)
mean, shift, scale, variance = values((4,), low=-2.0), values((4,), low=-3.0), values((4,), low=-2.0), values((4,))


def column(x: ex.Expr) -> ex.Expr:
    return x.reshape((-1, 1, 1))


def plain(x: ex.Expr) -> ex.Expr:
    return x


def norm(x: ex.Expr, by: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
    return (x - by(mean)) / by(ex.sqrt(variance + 1e-5)) * by(scale) + by(shift)


def computed(root: ex.Expr, without: tuple[str, ...] = ()) -> np.ndarray:
    program = Program(plan([root], Options(without=without, numerics="fast")))
    random = np.random.default_rng(3)
    given = {node: random.normal(size=node.shape) for node in INPUTS}
    needed = {node.uid for node in program.parameters}
    program.bind({node: value for node, value in given.items() if node.uid in needed})
    run_simple(program)
    (result,) = program.take()
    return result


def same_values(root: ex.Expr) -> bool:
    random = np.random.default_rng(3)
    (expected,) = reference([root], {node.uid: random.normal(size=node.shape) for node in INPUTS})
    return np.allclose(computed(root), expected, rtol=1e-12, atol=1e-12)


def often(root: ex.Expr) -> list[str]:
    """Return the names of the operations that every run computes."""
    kernels = plan([root], Options(numerics="fast")).schedule.kernels
    return [node.operation.name for k in kernels if not k.constant for node in k.nodes if not node.operation.view]


FILTERS = values((6, 4, 3, 3), low=-1.0)
PRODUCTS: dict[str, Callable[[Callable[..., ex.Expr]], ex.Expr]] = {
    "convolution": lambda n: ex.conv2d(n(images, column), FILTERS, values((6,))),
    "strided, dilated": lambda n: ex.conv2d(n(images, column), FILTERS, strides=2, dilation=2),
    "grouped": lambda n: ex.conv2d(n(images, column), values((6, 2, 3, 3), low=-1.0), groups=2),
    "depthwise": lambda n: ex.conv2d(n(images, column), values((8, 1, 2, 3), low=-1.0), groups=4),
    "linear": lambda n: n(rows, plain) @ values((4, 3), low=-1.0) + values((3,)),
    "linear over steps": lambda n: n(stacked, plain) @ values((4, 3), low=-1.0),
    "one matrix each": lambda n: n(stacked, plain) @ values((2, 4, 3), low=-1.0),
    "more matrices": lambda n: n(rows, plain) @ values((3, 4, 2), low=-1.0),
    "to numbers": lambda n: n(rows, plain) @ values((4,), low=-1.0),
    "a vector": lambda n: n(vector, plain) @ values((4, 3), low=-1.0),
    "a vector to a number": lambda n: n(vector, plain) @ values((4,), low=-1.0),
    "on the right": lambda n: values((3, 4), low=-1.0) @ n(rows.T, lambda c: c.reshape((4, 1))),
    "on the right, each": lambda n: (
        values((3, 4), low=-1.0) @ n(ex.transpose(stacked, (0, 2, 1)), lambda c: c.reshape((4, 1)))
    ),
    "a vector on the right": lambda n: values((3, 4), low=-1.0) @ n(vector, plain),
}


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_norm_with_stored_statistics_disappears_into_the_next_product(name: str) -> None:
    """A norm before a convolution or a matrix product leaves one product and one term."""
    root = PRODUCTS[name](norm)
    assert set(often(root)) <= {"conv2d", "matmul", "add", "subtract"}
    assert len(often(root)) <= 2
    planned = plan([root], Options(numerics="fast"))
    assert "norm_into_weights" in applied(planned.graph)
    assert same_values(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    "what",
    [
        lambda x, by: x * by(scale),
        lambda x, by: by(scale) * x,
        lambda x, by: x / by(variance),
        lambda x, by: by(shift) - x,
        lambda x, by: x - by(shift),
        lambda x, by: -(x + 0.5) * 3.0,
        lambda x, by: by(scale) * (1.0 - x) - by(shift),
    ],
    ids=["x·s", "s·x", "x/s", "t-x", "x-t", "-(x+½)·3", "s·(1-x)-t"],
)
def test_each_factor_and_term_by_channel_moves(name: str, what: Callable[..., ex.Expr]) -> None:
    """Factors, divisors, terms, signs and numbers move, on either side of the value."""
    root = PRODUCTS[name](what)
    assert "norm_into_weights" in applied(simplified(root))
    assert same_values(root)


@pytest.mark.spec("P-1")
def test_the_scale_and_shift_of_a_layer_norm_move() -> None:
    """After the division by the deviation, a layer norm contains only weights."""
    root = ex.layer_norm(stacked, scale, shift) @ values((4, 3), low=-1.0)
    facts = decision(simplified(root), "norm_into_weights").facts
    assert facts["saved_flops"] == 2 * stacked.size
    assert same_values(root)


@pytest.mark.spec("P-1", "P-15")
def test_padding_allows_factors_and_prevents_terms() -> None:
    """Padding zeros stay zero when channels are scaled, but not when they are shifted."""
    padded = ex.conv2d(norm(images, column), FILTERS, padding=1)
    assert declined(simplified(padded)) == [("NormIntoWeights", "padding")]
    factor = ex.conv2d(images * column(scale) / column(variance), FILTERS, padding=1)
    assert applied(simplified(factor)) == ["norm_into_weights"]
    both = ex.conv2d((images - column(mean)) * column(scale), FILTERS, padding=((0, 1), (0, 0)))
    assert applied(simplified(both)) == ["norm_into_weights"]
    assert declined(simplified(both)) == [("NormIntoWeights", "padding")]
    transposed = ex.conv_transpose2d(images * column(scale), values((4, 2, 3, 3)), groups=1)
    assert "norm_into_weights" in applied(simplified(transposed))
    grouped = ex.conv_transpose2d(images * column(scale), values((4, 2, 3, 3)), groups=2)
    shifted = ex.conv_transpose2d(images + column(shift), values((4, 2, 3, 3)))
    assert ("NormIntoWeights", "padding") in declined(simplified(shifted))
    for root in (padded, factor, both, transposed, grouped, shifted):
        assert same_values(root)


@pytest.mark.spec("P-1", "P-15")
def test_each_declined_decision_has_its_code() -> None:
    """A norm with other readers, a batch's own statistics, and other dtypes have a reason."""
    normed = norm(images, column)
    own = (images - images.mean(axis=(0, 2, 3), keepdims=True)) * column(scale)
    wide = ex.cast(rows, "float32") * values((4,), "float32")
    cases = {
        "other_consumers": (ex.conv2d(normed, FILTERS), normed),
        "not_constant": (ex.conv2d(images * images.mean(axis=(0, 2, 3), keepdims=True), FILTERS),),
        "dtype": (wide @ values((4, 3)),),
    }
    for code, roots in cases.items():
        assert ("NormIntoWeights", code) in declined(simplified(*roots)), code
        assert all(same_values(root) for root in roots)
    half = rows.astype("float16") * values((4,), "float16") @ values((4, 3), "float16")
    assert ("NormIntoWeights", "dtype") in declined(simplified(half))
    statistics = ex.conv2d(own, FILTERS)
    assert applied(simplified(statistics)) == ["norm_into_weights"]
    assert ("NormIntoWeights", "not_constant") in declined(simplified(statistics))
    assert same_values(statistics)


@pytest.mark.spec("P-1")
def test_other_operations_have_no_decision() -> None:
    """Residuals, elementwise gates, activations and products of inputs are ignored."""
    weights = values((4, 3))
    for root in (
        (rows + ex.tanh(rows)) @ weights,
        (rows * ex.sigmoid(rows)) @ weights,
        ex.relu(norm(rows, plain)) @ weights,
        (rows * 0.5) @ rows.T,
        (rows * values((5, 1))) @ weights,
        (rows + values((5, 4))) @ weights,
        (1.0 / rows) @ weights,
        (vector + vector) @ weights,
    ):
        assert [code for code in applied(simplified(root)) if code == "norm_into_weights"] == []
        assert declined(simplified(root)) == []
        assert same_values(root)


@pytest.mark.spec("P-1", "P-15")
def test_without_an_input_the_price_decides() -> None:
    """Without parameters the weights would change in each run: many rows gain, few are declined, tiny ones are
    ignored."""
    many, some, tiny = values((3000, 30)), values((100, 30)), values((2, 30))
    weights, factor = values((30, 40)), values((30,))
    assert applied(simplified(many * factor @ weights)) == ["norm_into_weights"]
    declined = decision(simplified(some * factor @ weights), "price")
    assert declined.facts["after_us"] > declined.facts["before_us"]
    assert simplified(tiny * factor @ weights).decisions == []
    assert simplified((many * factor).T @ ex.tanh(many)).decisions == []  # two values of a run, without weights


@pytest.mark.spec("P-1")
def test_gradients_equal_those_without_the_rule() -> None:
    """The gradients of input, weights and statistics equal those without the simplify pass."""
    loss = ex.square(PRODUCTS["convolution"](norm)).sum()
    for wanted in (images, FILTERS, scale, shift, mean):
        slope = ex.grad(loss, wanted)
        np.testing.assert_allclose(computed(slope), computed(slope, ("simplify",)), rtol=1e-9, atol=1e-9)


@st.composite
def chains(draw: st.DrawFn) -> ex.Expr:
    """Draw consecutive products of values with random factors, terms and signs."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))

    def weights(*shape: int) -> ex.Expr:
        return ex.tensor(random.uniform(0.3, 1.5, shape) * random.choice([-1.0, 1.0], shape))

    x = draw(st.sampled_from((images, rows, stacked)))
    image = x is images
    earlier: list[ex.Expr] = []
    for _ in range(draw(st.integers(1, 3))):
        channels = x.shape[1 if image else -1]
        for _ in range(draw(st.integers(0, 4))):
            own = draw(st.sampled_from((weights(channels), weights(1), ex.tensor(0.5), ex.TrivialTensor(2.0, ()))))
            by = column(own) if image and own.size > 1 else own.reshape(()) if own.size == 1 else own
            x = draw(st.sampled_from((x * by, by * x, x + by, by - x, x - by, x / by, -x, ex.relu(x))))
            earlier.append(x)
        if image:
            groups = draw(st.sampled_from((1, channels)))
            filters = weights(draw(st.integers(1, 2)) * groups, channels // groups, 2, 1) / 2.0
            x = ex.conv2d(x, filters, padding=draw(st.sampled_from((0, 1, ((1, 0), (0, 0))))), groups=groups)
        else:
            x = x @ (weights(channels, draw(st.integers(1, 4))) / 2.0)
    other = draw(st.sampled_from([*earlier, x]))
    return x.sum() + other.sum() if draw(st.booleans()) else x


@pytest.mark.spec("P-1", "P-9")
@given(root=chains(), without=subsets)
def test_chains_of_norms_and_products_keep_their_values(root: ex.Expr, without: tuple[str, ...]) -> None:
    """Random norms before random products have an interpreter's values, whatever pass is left out."""
    random = np.random.default_rng(3)
    inputs = {node.uid: random.normal(size=node.shape) for node in INPUTS}
    (expected,), (rough,) = reference([root], inputs), reference([root], inputs, np.random.default_rng(0))
    spread = np.abs(rough - expected).max() * 1e4 + 1e-9 * np.abs(expected).max() + 1e-11
    np.testing.assert_allclose(computed(root, without), expected, rtol=1e-9, atol=spread)
