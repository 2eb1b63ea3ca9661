"""Factors and terms that depend only on weights move into the weights, so that batch norms disappear."""

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
from tests.support.pnnx_models import expected, inputs, opened
from tests.support.programs import subsets

simplified = functools.partial(asking.simplified, numerics="fast")

images = Parameter(TensorType((2, 3, 6, 6), "float64"), "images")()
rows = Parameter(TensorType((5, 3), "float64"), "rows")()
filters, matrix = values((4, 3, 3, 3), low=-1.0), values((3, 4), low=-1.0)
bias, mean, shift = values((4,), low=-1.0), values((4,), low=-2.0), values((4,), low=-3.0)
variance, scale = values((4,)), values((4,), low=-2.0)


def column(x: ex.Expr) -> ex.Expr:
    return x.reshape((-1, 1, 1))


def given_values(seed: int = 3) -> dict[ex.Expr, np.ndarray]:
    random = np.random.default_rng(seed)
    return {node: random.normal(size=node.shape) for node in (images, rows)}


def computed(root: ex.Expr, without: tuple[str, ...] = ()) -> np.ndarray:
    program = Program(plan([root], Options(without=without, numerics="fast")))
    needed = {node.uid for node in program.parameters}
    program.bind({node: value for node, value in given_values().items() if node.uid in needed})
    run_simple(program)
    (result,) = program.take()
    return result


def same_values(root: ex.Expr, rtol: float = 1e-12) -> bool:
    (expected,) = reference([root], {node.uid: value for node, value in given_values().items()})
    return np.allclose(computed(root), expected, rtol=rtol, atol=rtol)


PRODUCTS: dict[str, tuple[Callable[[], ex.Expr], Callable[[ex.Expr], ex.Expr]]] = {
    "convolution": (lambda: ex.conv2d(images, filters, bias, padding=1), column),
    "grouped": (lambda: ex.conv2d(images, values((6, 1, 3, 3)), groups=3)[:, 2:], column),
    "strided": (lambda: ex.conv2d(images, filters, strides=2), column),
    "linear": (lambda: rows @ matrix + bias, lambda x: x),
    "turned": (lambda: rows @ ex.transpose(values((4, 3))), lambda x: x),
    "vector": (lambda: rows[1] @ matrix + bias, lambda x: x),
    "columns": (lambda: matrix.T @ rows.T, lambda x: x.reshape((4, 1))),
}


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", [name for name in PRODUCTS if name not in ("grouped", "columns", "vector")])
def test_a_batch_norm_with_stored_statistics_disappears_into_the_product_before_it(name: str) -> None:
    """A batch norm after a convolution or a matrix product leaves one product and one term, prepared once."""
    root = ex.batch_norm(PRODUCTS[name][0](), mean, variance, scale, shift)
    planned = plan([root], Options(numerics="fast"))
    often = [[node.operation.name for node in k.nodes] for k in planned.schedule.kernels if not k.constant]
    assert often[-1][1:] == ["add"]
    assert sum(names[0] in ("conv2d", "matmul") for names in often) == len(often)
    assert "factor_into_weights" in applied(planned.graph)
    assert "terms_of_weights" in applied(planned.graph)
    assert same_values(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    "what",
    [
        lambda y, by: y * by(scale),
        lambda y, by: by(scale) * y,
        lambda y, by: y / by(variance),
        lambda y, by: (y - by(mean)) * by(scale),
        lambda y, by: (by(mean) + y) / by(variance),
        lambda y, by: y * 0.5,
    ],
    ids=["y·s", "s·y", "y/s", "(y−m)·s", "(m+y)/s", "y·0.5"],
)
def test_a_factor_by_channel_moves_into_the_weights(
    name: str, what: Callable[[ex.Expr, Callable[[ex.Expr], ex.Expr]], ex.Expr]
) -> None:
    """It moves into filters or matrices on either side, together with a term in between."""
    product, by = PRODUCTS[name]
    root = what(product(), by)
    if name != "grouped":
        assert "factor_into_weights" in applied(simplified(root))
    assert same_values(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("inner", [ex.add, ex.subtract])
@pytest.mark.parametrize("outer", [ex.add, ex.subtract, lambda y, c: c + y])
def test_terms_of_weights_are_added_once(inner: Callable[..., ex.Expr], outer: Callable[..., ex.Expr]) -> None:
    """(y ± b) ± c with weights b and c is y and one term, for all signs."""
    for product in (ex.conv2d(images, filters), rows @ ex.transpose(values((4, 3)))):
        by = column if product.ndim == 4 else lambda x: x
        root = outer(inner(product, by(bias)), by(shift))
        graph = simplified(root)
        assert applied(graph).count("terms_of_weights") == 1
        assert graph.operands(graph.roots[0])[0].operation.name in ("conv2d", "matmul")
        assert same_values(root)


@pytest.mark.spec("P-1")
def test_gradients_equal_those_without_the_rule() -> None:
    """The gradients of input, filters and scale equal those without the simplify pass."""
    loss = ex.square(ex.batch_norm(ex.conv2d(images, filters, bias), mean, variance, scale, shift)).sum()
    for wanted in (images, filters, scale, shift):
        slope = ex.grad(loss, wanted)
        np.testing.assert_allclose(computed(slope), computed(slope, ("simplify",)), rtol=1e-10, atol=1e-10)


@pytest.mark.spec("P-1", "P-15")
def test_each_declined_decision_has_its_code() -> None:
    """Test a factor that depends on the input, has another axis or dtype, and a product with two readers."""
    y = ex.conv2d(images, filters)
    statistics = ex.batch_norm(y, y.mean(axis=(0, 2, 3)), y.mean(axis=(0, 2, 3)) + 2.0)
    across = y * values((4,))
    cases = {
        "not_constant": statistics,
        "shape": across,
        "dtype": ex.conv2d(images, values((4, 3, 3, 3), "float32")) * column(scale),
        "other_consumers": y * column(scale) + y,
    }
    for code, root in cases.items():
        assert ("FactorIntoWeights", code) in declined(simplified(root)), code
        assert same_values(root)
    half = rows.astype("float16") @ values((3, 4), "float16") * values((4,), "float16")
    assert ("FactorIntoWeights", "dtype") in declined(simplified(half))
    wider = rows @ matrix + bias + values((2, 1, 4))
    assert ("TermsOfWeights", "shape") in declined(simplified(wider))
    shared = rows @ matrix + bias
    assert ("TermsOfWeights", "other_consumers") in declined(simplified(shared + shift, shared))
    assert decision(simplified(cases["other_consumers"]), "other_consumers").facts["consumers"] == 2


@pytest.mark.spec("P-1", "P-15")
def test_without_an_input_the_price_decides() -> None:
    """Without parameters the weights would be scaled in each run: large results gain, small ones are declined."""
    large, small, tiny = values((2000, 30)), values((64, 30)), values((2, 30))
    weights, factor = values((30, 40)), values((40,))
    assert applied(simplified(large @ weights * factor)) == ["factor_into_weights"]
    assert simplified(tiny @ weights * factor).decisions == []
    declined = decision(simplified(small @ weights * factor), "price")
    assert declined.facts["after_us"] > declined.facts["before_us"]


@pytest.mark.spec("P-1")
def test_products_of_inputs_and_full_factors_have_no_decision() -> None:
    """Attention scores have no weights, and gates are not per channel."""
    scores = rows @ rows.T * 0.5
    gate = rows @ matrix * ex.sigmoid(rows @ values((3, 4)))
    for root in (scores, gate, rows @ matrix * values((5, 4))):
        assert declined(simplified(root)) == applied(simplified(root)) == []


@pytest.mark.spec("P-1", "P-15")
@pytest.mark.parametrize("name", ["convbn_opt0", "convbn_opt1"])
def test_the_batch_norm_of_a_model_file_is_folded(name: str) -> None:
    """A file with convolution, bias and batch norm runs as convolution and one term; the rest is prepared once."""
    net = opened(name)
    planned = net.preview_plan().planned
    assert [code for code in applied(planned.graph) if "weights" in code] == [
        "terms_of_weights",
        "factor_into_weights",
        "terms_of_weights",
    ]
    assert decision(planned.graph, "factor_into_weights").facts["weights"].name == "c.weight"
    often = [[node.operation.name for node in k.nodes] for k in planned.schedule.kernels if not k.constant]
    assert often[0][:2] == ["conv2d", "add"]
    assert not any(name in ("subtract", "sqrt", "divide") for names in often for name in names)
    result = net.run(inputs(net, name))
    np.testing.assert_allclose(result, expected(name, "output"), rtol=0, atol=1e-5)


@pytest.mark.spec("P-1")
def test_products_of_only_weights_are_kept() -> None:
    """They are computed once; rewriting sums of several such products did not terminate."""
    products = [values((1, 3)) @ values((3, 4)) for _ in range(3)]
    root = rows @ matrix + (products[0] + (products[1] + products[2]))
    graph = simplified(root)
    assert applied(graph) == declined(graph) == []
    assert same_values(root)


@st.composite
def networks(draw: st.DrawFn) -> ex.Expr:
    """Draw a chain of convolutions and matrix products with norms, factors, terms and activations in between."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))

    def weights(*shape: int) -> ex.Expr:
        return ex.tensor(random.uniform(0.3, 1.5, shape) * random.choice([-1.0, 1.0], shape))

    image = draw(st.booleans())
    x, channels = (images, 3) if image else (rows, 3)
    earlier = x
    for _ in range(draw(st.integers(1, 7))):
        by = column if image else (lambda value: value)
        kind = draw(st.integers(0, 8))
        if kind <= 2:
            number = draw(st.integers(1, 4))
            if image:
                groups = channels if draw(st.booleans()) else 1
                number *= groups
                kernel = weights(number, channels // groups, 3, 3) / 5.0
                x = ex.conv2d(x, kernel, weights(number) if kind else None, padding=1, groups=groups)
            else:
                x = x @ weights(channels, number)
            channels = number
        elif kind <= 4:
            x = ex.batch_norm(x, weights(channels), ex.square(weights(channels)), weights(channels), weights(channels))
        elif kind == 5:
            x = x * by(weights(channels)) if draw(st.booleans()) else by(weights(channels)) - x
        elif kind == 6:
            x = draw(st.sampled_from((x * 2.0, x / by(weights(channels)), x + by(weights(channels)), x - 1.5)))
        elif kind == 7:
            x = draw(st.sampled_from((ex.relu(x), ex.tanh(x), ex.sigmoid(x))))
        else:
            x = x + earlier if earlier.shape == x.shape else x
        earlier = draw(st.sampled_from((earlier, x)))
    return x


@pytest.mark.spec("P-1", "P-9")
@given(root=networks(), without=subsets)
def test_networks_keep_their_values_with_any_passes(root: ex.Expr, without: tuple[str, ...]) -> None:
    """Random chains of convolutions, products and norms have an interpreter's values, whatever pass is left out."""
    inputs = {node.uid: value for node, value in given_values().items()}
    (expected,) = reference([root], inputs)
    (rough,) = reference([root], inputs, np.random.default_rng(0))
    spread = np.abs(rough - expected).max() * 1e4 + 1e-9 * np.abs(expected).max() + 1e-12
    np.testing.assert_allclose(computed(root, without), expected, rtol=1e-9, atol=spread)


def test_sums_of_integers_stay_exact() -> None:
    """Scaled weights would round each product. Factors still move if the operand contains no integers."""
    pixels = Parameter(TensorType((64, 64), "uint8"), "pixels")()
    weights = ex.tensor(np.arange(64 * 64, dtype=np.int8).reshape(64, 64))
    whole = (pixels.astype("float32") - ex.tensor(np.uint8(3)).astype("float32")) @ weights.astype("float32")
    factor = values((64,), "float32")
    assert ("FactorIntoWeights", "exact") in declined(simplified(whole * factor))
    assert "factor_into_weights" in applied(
        simplified((pixels.astype("float32") / 3) @ weights.astype("float32") * factor)
    )
