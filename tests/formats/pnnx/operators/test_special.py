"""Special functions against Python's, NumPy's, and their defining equations, in double precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.formats.pnnx.nets import computed

REAL = np.concatenate([np.linspace(-25, 25, 1001), 10.0 ** np.linspace(-12, 1.4, 60)])


def value(type: str, x: Any) -> Any:
    (result,) = computed(type, np.asarray(x))
    return result


def test_erfc_is_accurate_where_it_is_small() -> None:
    """1 − erf(x) has no correct digit beyond 6."""
    wanted = np.array([math.erfc(x) for x in REAL])
    np.testing.assert_allclose(value("aten::erfc", REAL), wanted, rtol=2e-15)
    assert value("aten::erfc", [27.0, 40.0, math.inf, -math.inf]).tolist() == [math.erfc(27.0), 0, 0, 2]
    single = np.float32([5, 9, 10, -3])
    wanted = np.float32([math.erfc(x) for x in single])
    np.testing.assert_allclose(value("aten::erfc", single), wanted, rtol=1e-7)
    assert value("aten::erfc", single).dtype == np.float32


def test_gamma_equals_pythons() -> None:
    points = REAL[np.round(REAL) != REAL]
    np.testing.assert_allclose(value("torch.lgamma", points), [math.lgamma(x) for x in points], rtol=1e-13, atol=1e-14)
    assert value("torch.lgamma", [0.0, -1.0, -7.0, 1e306, 1e307]).tolist()[:3] == [math.inf] * 3


def test_digamma_is_the_derivative_of_the_logarithm_of_gamma() -> None:
    """ψ(x + 1) = ψ(x) + 1 / x, and −ψ(1) is Euler's constant."""
    points = np.array([-20.3, -3.7, -0.4, 0.1, 0.7, 3.3, 7.9, 8.1, 90.0])
    np.testing.assert_allclose(
        value("aten::digamma", points + 1), value("aten::digamma", points) + 1 / points, rtol=1e-12
    )
    np.testing.assert_allclose(value("aten::digamma", [1.0]), [-np.euler_gamma], rtol=1e-14)
    ends = value("aten::digamma", [0.0, -0.0, -2.0, math.inf])
    np.testing.assert_array_equal(ends, [-math.inf, math.inf, math.nan, math.inf])


def test_erfinv_inverts_erf_up_to_its_limits() -> None:
    y = np.concatenate([np.linspace(-0.999, 0.999, 501), 1 - 2.0 ** -np.arange(3.0, 53.0)])
    x = value("aten::erfinv", y)
    tail = y > 0.9
    np.testing.assert_allclose([math.erf(each) for each in x[~tail]], y[~tail], rtol=2e-15)
    # near the limits use erfc, which distinguishes the values
    np.testing.assert_allclose([math.erfc(each) for each in x[tail]], 1 - y[tail], rtol=3e-14)
    np.testing.assert_array_equal(
        value("aten::erfinv", [-1.0, 1.0, 1.5, math.nan]), [-math.inf, math.inf, math.nan, math.nan]
    )


def test_the_bessel_function_equals_numpys() -> None:
    points = np.linspace(-60, 60, 601)
    np.testing.assert_allclose(value("aten::i0", points), np.i0(points), rtol=1e-14)
    np.testing.assert_allclose(value("aten::special_i0e", points), np.i0(points) * np.exp(-abs(points)), rtol=1e-14)
    assert value("aten::i0", [math.inf, -math.inf, 800.0]).tolist() == [math.inf] * 3
