"""MetaNN's operations: its full list, its test cases with their numbers, and the rules M-O1 to M-O7."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry
from explorer.core.types.tensor_type import Array
from tests.support.refusals import refused

RANDOM = np.random.default_rng(0)
Make = Callable[..., Any]


def steps(start: float, step: float, *shape: int) -> Array:
    """Return MetaNN's G(start, step, shape): start, start + step, … in row-major order."""
    return start + step * np.arange(float(np.prod(shape))).reshape(shape)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# MetaNN's name: function, reference value, derivative, and the range of tested inputs
ELEMENTWISE: dict[str, tuple[Make, Make, Make, float, float]] = {
    "Abs": (ex.absolute, np.abs, np.sign, -3, 3),
    "Sign": (ex.sign, np.sign, np.zeros_like, -3, 3),
    "Negative": (ex.negative, np.negative, lambda x: -np.ones_like(x), -3, 3),
    "Acos": (ex.arccos, np.arccos, lambda x: -1 / np.sqrt(1 - x**2), -0.9, 0.9),
    "Acosh": (ex.arccosh, np.arccosh, lambda x: 1 / np.sqrt(x**2 - 1), 1.1, 4),
    "Asin": (ex.arcsin, np.arcsin, lambda x: 1 / np.sqrt(1 - x**2), -0.9, 0.9),
    "Asinh": (ex.arcsinh, np.arcsinh, lambda x: 1 / np.sqrt(1 + x**2), -3, 3),
    "Cos": (ex.cos, np.cos, lambda x: -np.sin(x), -3, 3),
    "Sin": (ex.sin, np.sin, np.cos, -3, 3),
    "Tan": (ex.tan, np.tan, lambda x: 1 / np.cos(x) ** 2, -1, 1),
    "Exp": (ex.exp, np.exp, np.exp, -3, 3),
    "Log": (ex.log, np.log, lambda x: 1 / x, 0.1, 4),
    "Square": (ex.square, np.square, lambda x: 2 * x, -3, 3),
    "Sqrt": (ex.sqrt, np.sqrt, lambda x: 0.5 / np.sqrt(x), 0.1, 4),
    "ReLU": (ex.relu, lambda x: np.maximum(x, 0), lambda x: (x > 0) * 1.0, -3, 3),
    "Sigmoid": (ex.sigmoid, sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x)), -3, 3),
    "Tanh": (ex.tanh, np.tanh, lambda x: 1 - np.tanh(x) ** 2, -3, 3),
}
SHAPES = [(), (3,), (2, 3), (2, 1, 3), (2, 3, 1, 2), (0,), (2, 0, 3)]


@pytest.mark.spec("M-O1", "M-L1")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_operations_and_their_gradients(name: str, dtype: Any) -> None:
    """Every elementwise operation of MetaNN and its gradient equal float64's, at ranks 0 to 4 and for no elements."""
    record, value, slope, low, high = ELEMENTWISE[name]
    for shape in SHAPES:
        given, upstream = (RANDOM.uniform(*span, shape).astype(dtype) for span in ((low, high), (-2, 2)))
        x = ex.tensor(given)
        y = record(x)
        result, gradient = ex.evaluate((y, ex.grad(y, x, seed=upstream)))
        tolerance = 1e-12 if dtype == np.float64 else 2e-5
        exact = given.astype(np.float64)
        for got, expected in ((result, value(exact)), (gradient, upstream * slope(exact))):
            assert (got.shape, got.dtype) == (shape, dtype)
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.spec("M-O1")
def test_gradients_of_sigmoid_and_tanh_read_the_output_and_the_others_the_input() -> None:
    """Gradients are g·y(1 − y) for sigmoid and g·(1 − y²) for tanh with the output y; all others read the input."""
    g, x = ex.tensor(RANDOM.uniform(-2, 2, 5)), ex.tensor(RANDOM.uniform(0.1, 0.9, 5))
    y = ex.tensor(RANDOM.uniform(0.1, 0.9, 5))
    outputs = {"Sigmoid": g.array * y.array * (1 - y.array), "Tanh": g.array * (1 - y.array**2)}
    for name, expected in outputs.items():
        (value,) = ELEMENTWISE[name][0].gradient(g, y, x)
        assert not reads(value, x)
        np.testing.assert_allclose(ex.evaluate(value), expected, rtol=1e-14)
    np.testing.assert_allclose(ex.evaluate(ex.sigmoid_gradient(g, y)), outputs["Sigmoid"], rtol=1e-14)
    for name in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Cos", "Sin", "Log", "Square"):
        (value,) = ELEMENTWISE[name][0].gradient(g, y, x)
        assert reads(value, x), name
        assert not reads(value, y), name


def reads(node: ex.Expr, wanted: ex.Expr) -> bool:
    from explorer.core.ir.traversal import reachable

    return any(each is wanted for each in reachable([node]))


@pytest.mark.spec("M-O1", "M-O3", "M-O6")
@pytest.mark.parametrize(
    ("record", "value"),
    [
        (lambda a, b: a + b, np.add),
        (lambda a, b: a - b, np.subtract),
        (lambda a, b: a * b, np.multiply),
        (lambda a, b: a / b, np.divide),
    ],
    ids=["Add", "Subtract", "Multiply", "Divide"],
)
def test_arithmetic_of_tensors_and_numbers(record: Make, value: Make) -> None:
    """Test tensors of every pair of ranks, broadcast both ways, and a number on the left and the right."""
    for left in SHAPES:
        for right in SHAPES:
            try:
                shape = np.broadcast_shapes(left, right)
            except ValueError:
                with refused(ex.OperandError, "axes"):
                    record(ex.tensor(np.ones(left)), np.ones(right))
                continue
            a, b = RANDOM.uniform(1, 2, left), RANDOM.uniform(1, 2, right)
            instance = record(ex.tensor(a), ex.tensor(b))
            assert instance.shape == shape
            np.testing.assert_allclose(ex.evaluate(instance), value(a, b), rtol=1e-14)
    for dtype in (np.float32, np.float64, np.int32):
        a = RANDOM.integers(1, 9, (2, 3)).astype(dtype)
        for number in (3, 0.5):
            for instance, expected in (
                (record(ex.tensor(a), number), value(a, number)),
                (record(number, ex.tensor(a)), value(number, a)),
            ):
                assert instance.dtype == expected.dtype
                np.testing.assert_allclose(ex.evaluate(instance), expected, rtol=1e-6)


@pytest.mark.spec("M-O1")
def test_interpolate() -> None:
    """interpolate(a, b, λ) is aλ + b(1 − λ), so 7.2 for 3 and 9 with λ = .3; any argument may be a number."""
    np.testing.assert_allclose(ex.evaluate(ex.interpolate(ex.tensor(3.0), 9.0, 0.3)), 7.2)
    np.testing.assert_allclose(ex.evaluate(ex.interpolate(3.0, ex.tensor(9.0), 0.3)), 7.2)
    a, b, weight = RANDOM.normal(size=(2, 1, 3)), RANDOM.normal(size=(4, 1)), RANDOM.uniform(size=3)
    value = ex.interpolate(ex.tensor(a), ex.tensor(b), ex.tensor(weight))
    np.testing.assert_allclose(ex.evaluate(value), a * weight + b * (1 - weight), rtol=1e-13)
    with pytest.raises(ex.OperandError, match=r"interpolate.*\n.*aligned"):
        ex.interpolate(ex.tensor(a), ex.tensor(np.ones(2)), 0.5)
    with pytest.raises(ex.OperandError, match="operands must be numeric"):
        ex.interpolate(ex.tensor([True]), ex.tensor([False]), True)


@pytest.mark.spec("M-O1")
def test_reduce_sum() -> None:
    """Test sums over all dimensions, given ones, the leading k, and with kept dimensions."""
    total = ex.evaluate(ex.tensor([0.1133, -0.9567, 0.2958]).sum())
    np.testing.assert_allclose(total, -0.5475, atol=2e-4)  # MetaNN's documentation has this number; the sum is −.5476
    np.testing.assert_allclose(total, -0.5476, rtol=1e-14)
    ones = ex.tensor(np.ones((2, 3)))
    np.testing.assert_array_equal(ex.evaluate(ones.sum(axis=1, keepdims=True)), [[3], [3]])
    np.testing.assert_array_equal(ex.evaluate(ones.sum(axis=0, keepdims=True)), [[2, 2, 2]])
    solid = RANDOM.normal(size=(2, 3, 4, 5))
    x = ex.tensor(solid)
    for leading in range(5):
        axes = tuple(range(leading))
        for kept in (False, True):
            result = ex.evaluate(x.sum(axis=axes, keepdims=kept))
            np.testing.assert_allclose(result, solid.sum(axis=axes, keepdims=kept), rtol=1e-12)
    np.testing.assert_allclose(ex.evaluate(x.sum(axis=(3, 1))), solid.sum(axis=(1, 3)), rtol=1e-12)
    for wrong in (4, (0, 0), 0.5):
        with pytest.raises(ex.OperandError, match="sum"):
            x.sum(axis=wrong)


@pytest.mark.spec("M-O1", "M-L2")
def test_dot_contracts_the_last_k_dimensions_with_the_first_k() -> None:
    """tensordot(a, b, k) contracts the last k axes of a with the first k of b: 5×4×3 and 4×3×2 give 5×2 in MetaNN."""
    result = ex.evaluate(ex.tensordot(ex.tensor(steps(0, 1, 5, 4, 3)), steps(0, 1, 4, 3, 2), 2))
    assert result.shape == (5, 2)
    np.testing.assert_array_equal(result[:2], [[1012, 1078], [2596, 2806]])
    a, b = RANDOM.normal(size=(2, 3, 4)), RANDOM.normal(size=(3, 4, 5))
    x, y = ex.tensor(a), ex.tensor(b)
    for axes, right in ((2, b), (((1,), (0,)), b), (((2, 1), (1, 0)), b), (1, b[0]), (0, b[0, 0]), ((-1, 1), b)):
        value = np.tensordot(x, right, axes=axes)
        np.testing.assert_allclose(ex.evaluate(value), np.tensordot(a, right, axes=axes), rtol=1e-12, atol=1e-14)
    product = ex.tensordot(x, y, 2)
    gradients = ex.evaluate(ex.grad(product, [x, y], seed=np.ones((2, 5))))
    np.testing.assert_allclose(gradients[0], np.broadcast_to(b.sum(axis=2), a.shape), rtol=1e-12)
    np.testing.assert_allclose(gradients[1], np.broadcast_to(a.sum(axis=0)[..., None], b.shape), rtol=1e-12)
    empty = ex.evaluate(ex.tensordot(ex.tensor(np.ones((2, 0))), np.ones((0, 3)), 1))
    np.testing.assert_array_equal(empty, np.zeros((2, 3)))
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (4, 3, 2)), ((), (2, 3))):
        a, b = RANDOM.normal(size=left), RANDOM.normal(size=right)
        np.testing.assert_allclose(ex.evaluate(np.dot(ex.tensor(a), b)), np.dot(a, b), rtol=1e-12, atol=1e-14)
    for axes, said in (
        (2, "equal sizes"),
        (4, "0 … 3"),
        (((0, 0), (0, 1)), "at most once"),
        (((0,), (0, 1)), "same number"),
    ):
        with pytest.raises(ex.OperandError, match=said):
            ex.tensordot(x, ex.tensor(np.ones((4, 3, 2))), axes)


@pytest.mark.spec("M-O1")
def test_permute_its_inverse_and_transpose() -> None:
    """Permute ⟨2,0,1⟩ of 3×2×5 is 5×3×2 with out[k,i,j] = in[i,j,k]; the inverse reverts every permutation."""
    solid = steps(0, 1, 3, 2, 5)
    x = ex.tensor(solid)
    result = ex.evaluate(ex.transpose(x, (2, 0, 1)))
    assert result.shape == (5, 3, 2)
    for i, j, k in np.ndindex(3, 2, 5):
        assert result[k, i, j] == solid[i, j, k]
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0), (-1, 0, 1)):
        back = ex.inverse_transpose(ex.transpose(x, order), order)
        np.testing.assert_array_equal(ex.evaluate(back, without=["simplify"]), solid)
        assert ex.inverse_transpose(x, order).shape == solid.transpose(np.argsort([axis % 3 for axis in order])).shape
    np.testing.assert_array_equal(ex.evaluate(x.T), solid.T)
    for wrong in ((0, 1), (0, 1, 1), (0, 1, 3), "abc"):
        for record in (ex.transpose, ex.inverse_transpose):
            with pytest.raises(ex.OperandError, match=record.__name__):
                record(x, wrong)


@pytest.mark.spec("M-O1")
def test_reshape_slice_and_tile() -> None:
    """Test reshape with one inferred dimension, slices, and tiling along a new dimension at any position."""
    solid = steps(0, 1, 2, 3, 4)
    x = ex.tensor(solid)
    assert x.reshape(4, -1).shape == (4, 6)
    assert x.reshape(-1).shape == (24,)
    for wrong in ((-1, -1), (5, -1), (2, 3)):
        with pytest.raises(ex.OperandError, match="reshape"):
            x.reshape(wrong)
    np.testing.assert_array_equal(ex.evaluate(x[1, ::-1, 1:3]), solid[1, ::-1, 1:3])
    row = ex.tensor([0, 1])
    for place, expected in ((0, [[0, 1], [0, 1]]), (1, [[0, 0], [1, 1]])):
        tiled = ex.broadcast_to(ex.expand_dims(row, place), (2, 2))
        np.testing.assert_array_equal(ex.evaluate(tiled), expected)
    np.testing.assert_array_equal(ex.evaluate(np.tile(x, (2, 1, 3))), np.tile(solid, (2, 1, 3)))


@pytest.mark.spec("M-O1")
@pytest.mark.parametrize("trailing", [1, 2, 3])
def test_softmax_over_the_trailing_dimensions_and_its_gradient(trailing: int) -> None:
    """Softmax over the trailing k dimensions subtracts the maximum first; its gradient is y(g − Σ gy)."""
    axes = tuple(range(3 - trailing, 3))
    given, g = RANDOM.normal(size=(2, 3, 4)) * 1e4, RANDOM.normal(size=(2, 3, 4))
    powers = np.exp(given - given.max(axis=axes, keepdims=True))
    y = powers / powers.sum(axis=axes, keepdims=True)
    np.testing.assert_allclose(ex.evaluate(ex.softmax(ex.tensor(given), axes)), y, rtol=1e-12)
    expected = y * (g - (g * y).sum(axis=axes, keepdims=True))
    np.testing.assert_allclose(ex.evaluate(ex.softmax_gradient(ex.tensor(g), y, axes)), expected, rtol=1e-12)
    with refused(ex.OperandError, "shape"):
        ex.softmax_gradient(ex.tensor(g), y[0], -1)


@pytest.mark.spec("M-O1", "M-L2")
def test_nll_loss_and_its_gradient() -> None:
    """With in = G(.1, .05, 3×4), w = G(.3, .1, 3×4), g = .5: loss −Σ w·ln(in) / Σw, gradient −.5·w / in / Σw."""
    prediction, truth = steps(0.1, 0.05, 3, 4), steps(0.3, 0.1, 3, 4)
    loss = ex.nll_loss(ex.tensor(truth), prediction)
    np.testing.assert_allclose(ex.evaluate(loss), -(truth * np.log(prediction)).sum() / truth.sum(), rtol=1e-14)
    expected = -0.5 * truth / prediction / truth.sum()
    np.testing.assert_allclose(ex.evaluate(ex.nll_loss_gradient(0.5, ex.tensor(truth), prediction)), expected)
    x = ex.tensor(prediction)
    np.testing.assert_allclose(ex.evaluate(ex.grad(ex.nll_loss(truth, x), x, seed=0.5)), expected, rtol=1e-13)
    for wrong in (
        lambda: ex.nll_loss(ex.tensor(truth), prediction[0]),
        lambda: ex.nll_loss_gradient(ex.tensor(truth), truth, prediction),
    ):
        with refused(ex.OperandError, "shape"):
            wrong()


@pytest.mark.spec("M-O1", headline=True)
def test_recording_an_expression_infers_its_type_without_computing() -> None:
    """Record an expression without computing it; shape, dtype and category are known at once."""

    class Untouched(ex.Elementwise):
        """x, with a kernel that must not run."""

        examples = (ex.Example(ex.real(2)),)
        nondifferentiable = "it is declared to fail when it runs"

        def kernel(self, out: Any, x: Any) -> Any:
            raise AssertionError("it ran")

    try:
        y = ex.softmax(Untouched()(ex.tensor(np.ones((2, 3), np.float32))) @ np.ones((3, 4), np.float32))
        assert (y.shape, y.dtype, y.type.category) == ((2, 4), np.float32, "matrix")
        with pytest.raises(ex.RunError, match="it ran"):
            ex.evaluate(y)
    finally:
        del registry.operations["untouched"], registry.functions["untouched"]


@pytest.mark.spec("M-O2", headline=True)
def test_illegal_operands_raise_an_error_when_they_are_written() -> None:
    """Reject invalid operands when an expression is written; the error names the operation, types and rule."""
    matrix, vector = ex.tensor(np.ones((2, 3))), ex.tensor(np.ones(2, np.float32))
    for write, operation, rule in (
        (lambda: matrix + vector, "add", "aligned at their last axes"),
        (lambda: matrix @ matrix, "matmul", "the last axis of matrix (3)"),
        (lambda: ex.nll_loss(matrix, vector), "nll_loss", "the same shape"),
        (lambda: ex.relu(ex.tensor([True])), "relu", "real numbers"),
        (lambda: ex.exp(matrix, vector), "exp", "must have 1 operand"),
    ):
        with pytest.raises(ex.OperandError) as caught:
            write()
        assert caught.value.given.startswith(operation)
        assert rule in caught.value.rule
    for write in (lambda: ex.add(1, 2), lambda: ex.interpolate(1, 2, 3), lambda: ex.tensordot(2, 3, 0)):
        with pytest.raises(ex.OperandError, match="without any tensor"):
            write()


@pytest.mark.spec("M-O3", headline=True)
def test_a_matrix_plus_a_three_d_array_is_a_three_d_array() -> None:
    """Broadcast over leading dimensions: 3×4 + 2×3×4 is 2×3×4, in either order."""
    matrix, solid = ex.Matrix(np.ones((3, 4))), ex.ThreeDArray(np.ones((2, 3, 4)))
    for total in (matrix + solid, solid + matrix):
        assert total.type.category == "three-d array"
        np.testing.assert_array_equal(ex.evaluate(total), np.full((2, 3, 4), 2.0))


@pytest.mark.spec("M-O5", headline=True)
def test_an_operation_with_no_effect_is_replaced_by_its_operand_with_a_decision() -> None:
    """Replace an operation that has no effect by its operand, and record this as a decision."""
    x = ex.tensor(np.arange(6.0).reshape(2, 3))
    for y in (ex.transpose(x, (0, 1)), x.sum(axis=()), x.reshape(2, 3), ex.broadcast_to(x, (2, 3)), x[:], ex.pad(x, 0)):
        plan = ex.EvalPlan()
        handle = plan.register(y)
        plan.eval()
        np.testing.assert_array_equal(handle.data(), np.arange(6.0).reshape(2, 3))
        (decisions,) = [decision for decision in plan.recording.decisions if decision.verdict == "applied"]
        assert (decisions.rule, decisions.code) == ("NoOp", "nothing_to_do")


@pytest.mark.spec("M-O6")
def test_an_int_matrix_plus_one_half() -> None:
    """Python numbers are weak, as in NumPy 2: an int matrix + 0.5 is float64, a float32 one stays float32."""
    assert "float64, as in NumPy 2" in (Path(__file__).parents[2] / "assets" / "metann.md").read_text(encoding="utf-8")
    for dtype, number, expected in (
        (np.int32, 0.5, np.float64),
        (np.int32, 2, np.int32),
        (np.float32, 0.5, np.float32),
        (np.float16, 2, np.float16),
        (np.bool_, 1, np.int64),
    ):
        y = ex.tensor(np.ones((2, 2), dtype)) + number
        assert y.dtype == expected
        assert ex.evaluate(y).dtype == expected


@pytest.mark.spec("M-O7", headline=True)
def test_a_loss_is_printed_in_nested_form() -> None:
    """Print any expression in its nested form, with the category of each value."""
    w = ex.Matrix(np.ones((3, 2)))
    text = str(ex.nll_loss(ex.tensor(np.ones(2)), ex.softmax(ex.tensor(np.ones(3)) @ w)))
    assert [line.split(":")[0].strip().split("(")[0] for line in text.splitlines()] == [
        "nll_loss",
        "tensor",
        "softmax",
        "matmul",
        "tensor",
        "w",
    ]
    assert [line.split(": ")[1].split(" ")[0] for line in text.splitlines()] == [
        "scalar",
        "vector",
        "vector",
        "vector",
        "vector",
        "matrix",
    ]
