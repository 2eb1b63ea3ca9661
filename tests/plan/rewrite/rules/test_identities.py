from collections.abc import Callable

import numpy as np
import pytest

import explorer as ex
from tests.plan.rewrite.rules.asking import applied, close, declined, simplified, values

x = values((2, 3), low=-2.0)
row = values((3,))
single = values((2, 3), "float32")
zero, one = ex.ZeroTensor((2, 3), dtype="float64"), ex.TrivialTensor(1.0, (2, 3), dtype="float64")
whole = ex.tensor(np.arange(6).reshape(2, 3))
stacked = ex.stack([x, x + 1.5])


@pytest.mark.spec("P-1", "M-O5")
@pytest.mark.parametrize(
    ("root", "code"),
    [
        (x + -0.0, "neutral"),
        (-0.0 + x, "neutral"),
        (whole + 0, "neutral"),
        (0 + whole, "neutral"),
        (ex.exp(x) + 0, "neutral"),
        (x - 0.0, "neutral"),
        (x * 1, "neutral"),
        (1.0 * x, "neutral"),
        (x / 1, "neutral"),
        (x**1, "neutral"),
        (x * one, "neutral"),
        (ex.transpose(x, (0, 1)), "nothing_to_do"),
        (x.reshape((2, 3)), "nothing_to_do"),
        (x.sum(axis=()), "nothing_to_do"),
        (values((1, 3)).max(axis=0, keepdims=True), "nothing_to_do"),
        (ex.square(values((1, 3))).mean(axis=0, keepdims=True), "nothing_to_do"),
        (x.mean(axis=()), "nothing_to_do"),
        (ex.prod(x, axis=()), "nothing_to_do"),
        (ex.add_n(x), "single_term"),
        (ex.relu(ex.relu(x)), "nonnegative_already"),
        (ex.absolute(ex.exp(x)), "nonnegative_already"),
        (ex.relu(ex.softmax(x)), "nonnegative_already"),
        (stacked[1], "member_of_stack"),
    ],
    ids=repr,
)
def test_an_operation_with_no_effect_is_its_operand(root: ex.Expr, code: str) -> None:
    assert code in applied(simplified(root))
    assert close(root)


@pytest.mark.spec("P-1", "M-O5")
def test_adaptive_pooling_to_the_size_of_the_image_is_its_operand_to_the_last_bit() -> None:
    """Infinite pixels, NaN and −0.0 are kept, with and without the rule."""
    pixels = np.array([[[[-0.0, np.inf], [np.nan, 2.5], [-np.inf, 5e-324]]]])
    root = ex.adaptive_avg_pool2d(ex.tensor(pixels), (3, 2))
    assert applied(simplified(root)) == ["nothing_to_do"]
    for result in (ex.evaluate(root), ex.evaluate(root, without="simplify")):
        np.testing.assert_array_equal(result, pixels)
        assert np.signbit(result)[0, 0, 0, 0]
    whole_numbers = ex.adaptive_avg_pool2d(ex.tensor(np.arange(6).reshape(1, 1, 3, 2)), (3, 2))
    assert applied(simplified(whole_numbers)) == []
    assert applied(simplified(ex.adaptive_avg_pool2d(ex.tensor(pixels), (2, 2)))) == []


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (row + ex.ZeroTensor((2, 3), dtype="float64"), "type"),
        (single + ex.TrivialTensor(0.0, (2, 3), dtype="float64"), "type"),
        (row * one, "type"),
        (ex.tensor(np.arange(3)) / 1, "type"),
    ],
    ids=repr,
)
def test_a_neutral_number_that_changes_the_type_is_kept(root: ex.Expr, expected: str) -> None:
    graph = simplified(root)
    assert ("NeutralNumber", expected) in declined(graph) or ("SumWithZero", expected) in declined(graph)
    assert close(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("root", [1 - x, 1 / x, x - 1, x + 1, x * 0.5, x.sum(axis=1), x**5], ids=repr)
def test_other_numbers_are_not_neutral(root: ex.Expr) -> None:
    assert applied(simplified(root)) == []


@pytest.mark.spec("P-1", "M-D2")
@pytest.mark.parametrize(
    ("root", "code"),
    [
        (x * zero, "zero_product"),
        (zero * x, "zero_product"),
        (x @ ex.ZeroTensor((3, 4), dtype="float64"), "zero_product"),
        (ex.transpose(zero), "zero_moved"),
        (zero.sum(axis=0), "zero_moved"),
        (x + zero, "zero_term"),
        (zero - x, "zero_term"),
        (ex.add_n(x, zero, x), "zero_term"),
        (ex.add_n(zero, zero), "zero_term"),
    ],
    ids=repr,
)
def test_the_structured_zero_disappears_from_sums_and_replaces_products(root: ex.Expr, code: str) -> None:
    assert code in applied(simplified(root))
    assert close(root)


@pytest.mark.spec("P-1", "M-D2")
def test_the_structured_zero_times_any_factor_is_zero() -> None:
    broken = ex.tensor(np.array([np.nan, np.inf, 1.0]))
    assert ex.evaluate(broken * ex.ZeroTensor((3,), dtype="float64")).tolist() == [0, 0, 0]
    assert np.isnan(ex.evaluate(broken * ex.tensor(np.zeros(3)))[0])


@pytest.mark.spec("P-1")
def test_a_sum_of_a_wider_integer_and_a_zero_is_kept() -> None:
    small = ex.tensor(np.array([1, 2], np.uint8))
    root = ex.ZeroTensor((2,), dtype="uint8") - small
    assert close(root)
    flags = ex.tensor(np.array([True, False]))
    assert close(ex.ZeroTensor((2,), dtype="uint8") - flags)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("root", [x + 0, 0.0 + x, x - -0.0, values((1, 3)).sum(axis=0, keepdims=True)], ids=repr)
def test_a_zero_that_changes_the_sign_of_zeros_is_kept(root: ex.Expr) -> None:
    assert {code for _, code in declined(simplified(root))} >= {"minus_zero"}


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    "form",
    [
        lambda x: sum([ex.softmax(x), ex.sigmoid(x)]),
        lambda x: 1 / ((x + 0) + 0),
        lambda x: 1 / (0 + (x + ex.sigmoid(x))),
        lambda x: 1 / ((x - 0.0 + 0.0) + 0),
    ],
)
def test_a_zero_is_removed_from_sums_that_are_never_minus_zero(form: Callable[[ex.Expr], ex.Expr]) -> None:
    """Python's ``sum`` starts with 0, which disappears next to probabilities or another sum with a 0."""
    root = form(ex.tensor(np.array([0.0, -0.0, 5e-324, -5e-324, -np.inf, np.inf, np.nan])))
    assert "neutral" in applied(simplified(root))
    np.testing.assert_array_equal(ex.evaluate(root), ex.evaluate(root, without="simplify"))


@pytest.mark.spec("P-1")
def test_products_with_a_complex_one_are_kept() -> None:
    number = ex.tensor(np.array([complex(np.inf, -0.0)]))
    for root in (number * 1, number / 1, ex.prod(number, axis=())):
        assert {code for _, code in declined(simplified(root))} >= {"complex"}


@pytest.mark.spec("P-1")
def test_a_complex_minus_zero_is_the_reason_to_keep_sums_and_powers() -> None:
    """Only products turn an infinite element into NaN; subtracting 0 is kept without a decision."""
    number = ex.tensor(np.array([complex(np.inf, -0.0)]))
    for root in (number + 0, number**1.0):
        assert {code for _, code in declined(simplified(root))} == {"minus_zero"}
    assert declined(simplified(number - 0)) == []


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("a", [0.0, -0.0])
@pytest.mark.parametrize("b", [0.0, -0.0])
def test_zero_is_added_to_a_sum_that_may_be_minus_zero(a: float, b: float) -> None:
    x, y = ex.tensor([a, 1.0]), ex.tensor([b, 1.0])
    for value in ((x + y) + 0.0, ex.sum(ex.reshape(x + y, (1, 2)), axis=0), ex.absolute(x + y)):
        assert np.signbit(ex.evaluate(value)).tolist() == [False, False]
