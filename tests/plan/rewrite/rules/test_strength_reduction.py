from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.ir.traversal import reachable
from tests.plan.rewrite.rules.asking import applied, close, declined, simplified, values

x = values((2, 3), low=-2.0)
positive = ex.exp(x)
whole = ex.tensor(np.arange(-3, 3))


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("root", [x**2, x**3, x**4.0, x**-1, positive**0.5, whole**2, whole**3], ids=repr)
def test_small_powers_become_products_reciprocals_or_roots(root: ex.Expr) -> None:
    """x², x³, x⁴, 1/x and the root of a nonnegative value use no general power."""
    graph = simplified(root)
    assert applied(graph) == ["power"]
    assert not any(node.operation.name == "power" for node in reachable(graph.roots))
    assert close(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("exponent", [2, 3, 4, -1])
def test_gradients_of_powers_are_unchanged(exponent: int) -> None:
    slope = ex.grad((x**exponent).sum(), x)
    expected = exponent * x.array ** float(exponent - 1)
    np.testing.assert_allclose(ex.evaluate(slope), expected, rtol=1e-12)
    np.testing.assert_allclose(ex.evaluate(slope, without="simplify"), expected, rtol=1e-12)


@pytest.mark.spec("P-1", "P-15")
def test_powers_with_different_results_are_kept() -> None:
    """Test a root of a possible −∞, a power of another type or shape, and other exponents."""
    assert declined(simplified(x**0.5)) == [("PowerByProducts", "domain")]
    edge = ex.tensor(np.array([-np.inf, -0.0, np.inf]))
    assert close(edge**0.5, 0.0)
    assert declined(simplified(whole**2.0)) == [("PowerByProducts", "type")]
    wide = x ** ex.TrivialTensor(2.0, (4, 2, 3), dtype="float64")
    assert declined(simplified(wide)) == [("PowerByProducts", "type")]
    assert applied(simplified(x**1.5)) == applied(simplified(x ** values((2, 3)))) == []
    for root in (x**0.5, whole**2.0, wide, x**1.5):
        assert close(root)


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@given(power=st.integers(-40, 40), sign=st.sampled_from((1.0, -1.0)), seed=st.integers(0, 99))
def test_division_by_a_power_of_two_is_the_same_product_to_the_last_bit(
    dtype: str, power: int, sign: float, seed: int
) -> None:
    """x / 2ⁿ and x · 2⁻ⁿ are equal bit by bit; where 2⁻ⁿ leaves the dtype, the division stays."""
    array = np.random.default_rng(seed).normal(size=8).astype(dtype) * np.asarray(2.0 ** (seed % 9), dtype)
    numbers = ex.tensor(np.append(array, np.array([np.inf, -0.0, np.nan, np.finfo(dtype).tiny], dtype)))
    root = numbers / (sign * 2.0**power)
    graph = simplified(root)
    if abs(power) > 14 and dtype == "float16":
        assert "halving" not in applied(graph)
    elif power or sign < 0:
        assert applied(graph) == ["halving"]
    with np.errstate(all="ignore"):
        expected = numbers.array / np.asarray(sign * 2.0**power, dtype)
    assert ex.evaluate(root).tobytes() == expected.tobytes()


@pytest.mark.spec("P-1", "P-15")
def test_other_divisions_are_kept() -> None:
    """Division by another number, or of integers, differs from a product in its digits."""
    assert applied(simplified(x / 3)) == applied(simplified(x / 0.1)) == []
    assert declined(simplified(whole / 2)) == [("DivisionByPowerOfTwo", "type")]
    assert close(whole / 2)
