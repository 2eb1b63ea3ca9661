"""The C functions of generated kernels are within 2 ulp over the whole range of float32 and float64."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from explorer.core.types.tensor_type import Array
from explorer.run.native.library import library

_EXACT: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    # both forms of the sigmoid, each where it does not overflow
    "sigmoid": lambda x: np.where(x < 0, np.exp(-np.abs(x)), 1) / (1 + np.exp(-np.abs(x))),
    "erf": np.vectorize(math.erf, otypes=[float]),
}
_LIMIT = 1.9
"""maximum error in ulp of the functions of float64, of which fewer numbers are tested"""


def sample(dtype: Any) -> Array:
    """Return numbers of every exponent and sign, subnormal numbers, and special values."""
    random = np.random.default_rng(0)
    if dtype == np.float32:
        spread = np.arange(0, 1 << 32, 20011, dtype=np.uint64).astype(np.uint32).view(np.float32)
    else:
        spread = random.integers(0, 1 << 64, 200_000, dtype=np.uint64).view(np.float64)
    # in these ranges the functions are neither constant nor linear
    usual = [random.normal(0, 3, 100_000), random.normal(0, 300, 50_000), random.uniform(-1.2, 1.2, 100_000)]
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-310, 709.78, 709.79, -708.5, -745.2]
    with np.errstate(over="ignore", under="ignore"):
        return np.concatenate([spread, *[part.astype(dtype) for part in usual], np.array(edges, dtype)])


def applied(name: str, x: Array) -> Array:
    """Return the results of a C function."""
    kind = "f32" if x.dtype == np.float32 else "f64"
    code = (
        f"void apply_{name}(void *const *arrays, int64_t start, int64_t stop) {{\n"
        f"    const {kind} *x = arrays[0];\n"
        f"    {kind} *y = arrays[1];\n"
        "    VECTORIZE\n"
        f"    for (int64_t i = start; i < stop; i++) y[i] = {name}_{kind}(x[i]);\n"
        "}\n"
    )
    built = library(((f"apply_{name}", code),))
    result = np.empty_like(x)
    built.functions[f"apply_{name}"]((ctypes.c_void_p * 2)(x.ctypes.data, result.ctypes.data), 0, len(x))
    return result


def exact_erf(x: Array) -> Array:
    """Return erf with more digits than float64; beyond 6 it is 1."""
    values = [mpmath.nstr(mpmath.erf(number), 25) if number == number else "nan" for number in np.clip(x, -7, 7)]
    return np.where(x == 0, x, np.array(values, np.longdouble))


@pytest.mark.spec("K-4", headline=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted(_EXACT))
def test_a_function_is_within_2_ulp(name: str, dtype: str, compiler: None) -> None:
    """The C functions exp, expm1, log, log1p, tanh, sigmoid and erf are within 2 ulp in all of float32 and float64."""
    if dtype == "float64" and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("the long double of this machine is float64")
    x = sample(np.dtype(dtype))
    if name == "erf" and dtype == "float64":
        x = np.concatenate([x[::50], x[-14:]])
    if name == "exp_nonpositive":  # infinity is the only positive operand of normalizations
        x = x[~((x > 0) & (x < np.inf))]
    result = applied(name, x)
    wide = np.float64 if dtype == "float32" else np.longdouble
    with np.errstate(all="ignore"):
        exact = exact_erf(x) if name == "erf" and dtype == "float64" else _EXACT[name](x.astype(wide))
        rounded = exact.astype(dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(result[~finite], rounded[~finite])
    zero = (rounded == 0) & (x == 0)
    np.testing.assert_array_equal(np.signbit(result[zero]), np.signbit(rounded[zero]))
    digits, least = (24, -149) if dtype == "float32" else (53, -1074)
    unit = np.exp2(np.maximum(np.frexp(np.abs(exact[finite]))[1] - digits, least).astype(wide))
    error = np.abs(result[finite].astype(wide) - exact[finite]) / unit
    assert error.max() <= (2 if dtype == "float32" else _LIMIT), (name, x[finite][error.argmax()])


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["erf", "sigmoid", "tanh"])
def test_a_function_reaches_its_limit(name: str, dtype: str, compiler: None) -> None:
    """Functions that tend to 1 are 1 for large numbers, not 1 - 1 ulp: GELU of -100 is x * (erf(x) + 1) = 0."""
    large = np.array([40, 1e30, np.inf], dtype)
    np.testing.assert_array_equal(applied(name, large), 1)
    if name != "sigmoid":
        np.testing.assert_array_equal(applied(name, -large), -1)
    assert np.all(np.abs(applied(name, np.linspace(0, 40, 100_001, dtype=dtype))) <= 1)
