"""Every operation against float64 at ranks 0 to 4, with broadcasting both ways and axes of size 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

import explorer as ex
from explorer.core.ir.expr import Operation
from explorer.core.ir.operation_examples import Example, Integers, Real, integers, real
from explorer.core.types.tensor_type import Array
from explorer.ops.base import Ufunc
from explorer.testing.laws.cases import Case, floating
from explorer.testing.laws.method_laws import differences
from tests.laws.cases import every_case, operations, parameters

LARGEST = 48
"""maximum number of elements of an operand whose gradient is compared with differences"""
shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)


def softmax(x: Any, axes: tuple[int, ...]) -> Any:
    powers = np.exp(x - x.max(axis=axes, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=axes, keepdims=True)


def sigmoid(x: Any) -> Any:
    return np.exp(-np.logaddexp(0, -x))


def erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[float])(x)


def gelu(x: Any, approximate: bool) -> Any:
    cubic = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return 0.5 * x * (1 + (cubic if approximate else erf(x / math.sqrt(2))))


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add_n": lambda *terms: sum(terms),
    "clip": lambda x, low, high, is_open: np.clip(x, low, high),
    "erf": erf,
    "gelu": gelu,
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "imaginary_part": np.imag,
    "interpolate": lambda a, b, weight: a * weight + b * (1 - weight),
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "real_part": np.real,
    "relu": lambda x: np.maximum(x, 0),
    "rsqrt": lambda x: x**-0.5,
    "sigmoid": sigmoid,
    "sigmoid_gradient": lambda g, y: g * y * (1 - y),
    "silu": lambda x: x * sigmoid(x),
    "log1mexp": lambda x: np.log(1 - np.exp(x)),
    "softplus": lambda x: np.logaddexp(x, 0),
    "where": np.where,
}
"""reference values of operations without a NumPy ufunc, from float64 operands and attributes"""
ALONG: dict[str, Callable[..., Any]] = {
    "all": lambda x, axes: np.all(x, axes),
    "any": lambda x, axes: np.any(x, axes),
    "log_softmax": lambda x, axes: np.log(softmax(x, axes)),
    "logsumexp": lambda x, axes: np.logaddexp.reduce(x, axes) if len(axes) == 1 else np.log(np.exp(x).sum(axes)),
    "max": lambda x, axes: np.max(x, axes),
    "mean": lambda x, axes: np.mean(x, axes),
    "min": lambda x, axes: np.min(x, axes),
    "prod": lambda x, axes: np.prod(x, axes),
    "softmax": softmax,
    "sum": lambda x, axes: np.sum(x, axes),
}
"""reference values of operations along axes"""


def elementwise() -> list[Any]:
    return parameters(case for case in every_case() if type(case.operation).elementwise and case.example.operands)


def reference(operation: Operation, arrays: list[Array]) -> Any:
    """Return the value of float64 operands from a reference other than the kernel, or None without a reference."""
    exact = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
    with np.errstate(all="ignore"):
        if isinstance(operation, Ufunc):
            return operation.ufunc(*exact)
        if operation.name in ELEMENTWISE:
            return ELEMENTWISE[operation.name](*exact, **operation.attributes)
        return None


def reshaped(given: Real | Integers, shape: tuple[int, ...], dtype: str) -> Real | Integers:
    make: Any = real if isinstance(given, Real) else integers
    kept = dtype if isinstance(given, Real) and given.dtype[0] == "f" else given.dtype
    return make(*shape, low=given.low, high=given.high, dtype=kept)


def compared(case: Case, arrays: list[Array], expected: Any) -> None:
    """Compare the planned value with a float64 reference, and its shape and dtype with the inferred ones."""
    y = case.operation(*map(ex.tensor, arrays))
    with np.errstate(all="ignore"):
        result = ex.evaluate(y)
    assert (result.shape, result.dtype) == (y.shape, y.dtype)
    assert y.shape == np.shape(expected)
    single = any(array.dtype == np.float32 for array in arrays)
    np.testing.assert_allclose(result, expected, rtol=2e-4 if single else 1e-11, atol=2e-5 if single else 1e-12)


def gradient_holds(case: Case) -> None:
    """Check that gradients of a float64 case have the operands' shapes and equal central differences."""
    arrays, places = case.arrays("float64"), floating(case.example)
    small = all(array.size <= LARGEST for array in arrays)
    if case.operation.nondifferentiable or not places or not small:
        return
    operands = [ex.tensor(array) for array in arrays]
    y = case.operation(*operands)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, y.shape)
    for place, gradient in zip(
        places, ex.evaluate(ex.grad(y, [operands[i] for i in places], seed=weights)), strict=True
    ):
        assert gradient.shape == arrays[place].shape
        expected = differences(case, arrays, place, weights)
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("M-O1", "M-O3", "C-18")
@settings(max_examples=8)
@pytest.mark.parametrize("case", elementwise())
@given(data=st.data())
def test_elementwise_operations_of_any_shapes(case: Case, data: st.DataObject) -> None:
    """Every elementwise operation, broadcast both ways at ranks 0 to 4, has float64's values and right gradients."""
    count = len(case.example.operands)
    drawn = data.draw(mutually_broadcastable_shapes(num_shapes=count, min_side=0, max_side=3, max_dims=4))
    for dtype in ("float64", "float32"):
        own = [reshaped(*pair, dtype) for pair in zip(case.example.operands, drawn.input_shapes, strict=True)]
        node = Case(case.operation, Example(*own, **case.example.attributes))
        arrays = node.arrays()
        expected = reference(node.operation, arrays)
        if expected is not None:
            compared(node, arrays, expected)
        if dtype == "float64":
            gradient_holds(node)


def test_every_elementwise_operation_has_a_reference() -> None:
    """Values are compared with NumPy or a formula; only operations that move or convert elements have no reference."""
    without = {
        operation_class.name
        for operation_class in operations()
        if operation_class.elementwise
        and not issubclass(operation_class, Ufunc)
        and operation_class.name not in ELEMENTWISE
    }
    assert without <= {"cast", "stop_gradient", "to_device"}


@pytest.mark.spec("M-O1", "C-18")
@settings(max_examples=40)
@pytest.mark.parametrize("name", ALONG)
@given(data=st.data(), keepdims=st.booleans(), shape=shapes, low=st.sampled_from([0.1, -2.0]))
def test_operations_along_axes_of_any_shapes(
    name: str, data: st.DataObject, keepdims: bool, shape: tuple[int, ...], low: float
) -> None:
    """Every operation along axes, over any axes of ranks 0 to 4 and over none, has float64's values and gradients."""
    axes = tuple(sorted(data.draw(st.sets(st.sampled_from(range(len(shape)))) if shape else st.just(set()))))
    operation_class = ex.operation(name)
    keeps = "keepdims" in operation_class.attribute_names
    attributes = {"axes": axes, "keepdims": keepdims} if keeps else {"axes": axes}
    for dtype in ("float64", "float32"):
        case = Case(operation_class(**attributes), Example(real(*shape, low=low, high=2.0, dtype=dtype), **attributes))
        arrays = case.arrays()
        try:
            case.operation.type_of(case.types)
        except ex.OperandError:
            assert (name in ("max", "min") and not arrays[0].size) or (name.endswith("softmax") and not axes)
            return
        exact = arrays[0].astype(np.float64)
        with np.errstate(all="ignore"):
            if not exact.size and name == "mean":
                expected = np.full(exact.sum(axes).shape, np.nan)
            else:
                expected = ALONG[name](exact, axes)
        if keeps and keepdims:
            expected = np.reshape(expected, exact.sum(axes, keepdims=True).shape)
        compared(case, arrays, expected)
        if dtype == "float64":
            gradient_holds(case)


@pytest.mark.spec("M-O1", "C-18")
@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 3), max_size=2), st.lists(st.integers(0, 3), min_size=3, max_size=3), st.booleans(),
    st.sampled_from(["both", "left", "right", "vectors"]),
)  # fmt: skip
def test_products_of_any_shapes(batch: list[int], sizes: list[int], single: bool, kind: str) -> None:
    """Products of matrices, of stacks on either side or both, of vectors and of nothing have right gradients."""
    n, k, m = sizes
    stack = tuple(batch)
    left = (k,) if kind == "vectors" else (*stack, n, k) if kind != "right" else (n, k)
    right = (k,) if kind == "vectors" else (*stack, k, m) if kind != "left" else (k, m)
    dtype = "float32" if single else "float64"
    case = Case(ex.matmul, Example(real(*left, dtype=dtype), real(*right, dtype=dtype)))
    arrays = case.arrays()
    compared(case, arrays, arrays[0].astype(np.float64) @ arrays[1].astype(np.float64))
    gradient_holds(case)


@pytest.mark.spec("M-O6", "C-18")
@pytest.mark.parametrize("case", parameters(case for case in every_case() if floating(case.example)))
def test_single_precision_is_close_to_double(case: Case) -> None:
    """Each operation gives its float64 value for float32 operands, up to rounding."""
    rough = case.arrays("float32")
    exact = [array.astype(np.float64) if array.dtype == np.float32 else array for array in rough]
    result, expected = case.operation.compute(*rough), case.operation.compute(*exact)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-4, atol=1e-5)
