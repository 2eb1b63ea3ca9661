"""Python operators and array methods: each records NumPy's computation, or raises an error with an alternative."""

import operator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.support.refusals import refused

INTEGERS = np.array([[-7, 0, 3], [5, 8, -2]])
OPERATORS = (
    operator.floordiv, operator.mod, operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift,
)  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS, ids=lambda apply: apply.__name__)
def test_integer_operators_equal_numpys(apply: Any) -> None:
    x, other = ex.tensor(INTEGERS), np.array([3, 1, 2])
    for value, expected in (
        (apply(x, 2), apply(INTEGERS, 2)),
        (apply(x, ex.tensor(other)), apply(INTEGERS, other)),
        (apply(5, ex.tensor(other)), apply(5, other)),
        (apply(other, ex.tensor(other)), apply(other, other)),
    ):
        assert isinstance(value, ex.Expr)
        np.testing.assert_array_equal(ex.evaluate(value), expected)
        assert value.dtype == expected.dtype


def test_divmod_is_the_quotient_and_the_remainder() -> None:
    x = ex.tensor(INTEGERS)
    np.testing.assert_array_equal(np.stack(ex.evaluate(divmod(x, 3))), np.stack(np.divmod(INTEGERS, 3)))
    three = ex.tensor([3, 4, 5])
    np.testing.assert_array_equal(np.stack(ex.evaluate(divmod(7, three))), np.stack(np.divmod(7, np.array([3, 4, 5]))))


@pytest.mark.parametrize("apply", [operator.and_, operator.or_, operator.xor])
def test_operators_on_booleans_give_booleans(apply: Any) -> None:
    positive, even = ex.tensor(INTEGERS > 0), ex.tensor(INTEGERS % 2 == 0)
    value = apply(positive, even)
    assert value.dtype == bool
    np.testing.assert_array_equal(ex.evaluate(value), apply(INTEGERS > 0, INTEGERS % 2 == 0))


def test_errors_of_operators_contain_the_dtypes() -> None:
    x = ex.tensor([1.0, 2.0, 3.0])
    with pytest.raises(ex.OperandError, match="of dtype float64, float64"):
        _ = x & x
    with pytest.raises(ex.OperandError, match="of dtype bool"):
        _ = -(x > 0)
    with pytest.raises(ex.OperandError, match="of dtype float64"):
        _ = ~x
    with refused(ex.OperandError, "dtype"):
        ex.where(np.array(["a"]), x, 1.0 * x)
    with pytest.raises(ex.OperandError, match="of dtype complex128"):
        ex.relu(ex.tensor(np.ones(3, complex)))


def test_methods_equal_numpys() -> None:
    array = np.arange(12.0).reshape(3, 1, 4)
    x = ex.tensor(array)
    for value, expected in (
        (x.flatten(), array.flatten()),
        (x.squeeze(), array.squeeze()),
        (x.squeeze(1), array.squeeze(1)),
        (x.clip(2.0, 5.0), array.clip(2.0, 5.0)),
        (x.clip(max=5.0), array.clip(max=5.0)),
        (x.transpose(), array.transpose()),
        (x.transpose(None), array.transpose(None)),
        (x.transpose(2, 0, 1), array.transpose(2, 0, 1)),
        (x.transpose((2, 0, 1)), array.transpose((2, 0, 1))),
        (x.flatten().transpose(0), array.flatten().transpose(0)),
    ):
        np.testing.assert_array_equal(ex.evaluate(value), expected)


@pytest.mark.parametrize("axes", [(0,), (1,), ("a", 0), (0, 0)])
def test_transpose_rejects_invalid_axes(axes: Any) -> None:
    """Axis 0 is not treated as "no axes"."""
    x = ex.tensor(np.ones((3, 4)))
    with pytest.raises(ex.OperandError):
        x.transpose(*axes)
    with pytest.raises(ex.OperandError):
        ex.transpose(x, axes[0])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("backward", r"ex\.grad\(loss, \[w\]\)"),
        ("numpy", r"ex\.evaluate\(x\)"),
        ("argmax", r"use ex\.argmax\(x\)"),
        ("nonzero", r"ex\.evaluate\(x\)\.nonzero"),
        ("view", "reshape"),
        ("unsqueeze", "expand_dims"),
        ("permute", "transpose"),
        ("softmax", r"ex\.softmax\(x\)"),
    ],
)
def test_errors_about_methods_of_other_libraries_suggest_an_alternative(name: str, told: str) -> None:
    x = ex.tensor(np.ones(3))
    with pytest.raises(AttributeError, match=told):
        getattr(x, name)
    assert not hasattr(np.exp(x), name)


@pytest.mark.parametrize(
    ("name", "told"), [("sofmax", "ex.softmax(x), "), ("shpe", "x.shape, "), ("transpoze", "x.transpose"), ("qqqq", "")]
)
def test_the_error_of_a_misspelt_name_suggests_similar_ones(name: str, told: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(ex.tensor(np.ones(3)), name)
    message = f"an expression has no attribute {name!r}"
    assert str(caught.value).startswith(f"{message}; near names: {told}" if told else message)
    assert ("near" in str(caught.value)) == bool(told)


@pytest.mark.parametrize("name", ["__array_interface__", "_repr_html_", "_ipython_display_", "__wrapped__"])
def test_attribute_probes_of_numpy_and_ipython_find_nothing(name: str) -> None:
    """Lookups of these names return no attribute and no suggestion."""
    x = ex.tensor(np.ones(3))
    with pytest.raises(AttributeError) as caught:
        getattr(x, name)
    assert str(caught.value) == f"an expression has no attribute {name!r}"


def test_an_object_that_opts_out_of_numpy_ufuncs_handles_the_operator() -> None:
    """``__array_ufunc__ = None`` opts out; the error for other objects contains their class."""

    class Quantity:
        __array_ufunc__ = None
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> Any:
            return "equal", other

        def __radd__(self, other: object) -> Any:
            return "added", other

        def __gt__(self, other: object) -> Any:
            return "greater", other

    x = ex.tensor([1.0, 2.0])
    assert (x == Quantity())[0] == "equal"
    assert (x + Quantity())[0] == "added"
    assert (x < Quantity())[0] == "greater"
    with pytest.raises(TypeError, match="unsupported operand"):
        x - Quantity()
    with pytest.raises(ex.OperandError, match="dtype object"):
        x == object()  # noqa: B015
