"""Error function.

NumPy has no error function, and SciPy is too large a dependency for one function. Double precision uses fdlibm's
piecewise approximations, as C libraries do. Single precision uses the tanh of one polynomial, which is cheaper than
masks and exponentials. Integers become floating. erf(±∞) = ±1, erf(NaN) = NaN; the gradient is g · 2/√π · e^(−x²).
(ONNX: Erf; PNNX: torch.erf.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation_examples import Example, real
from explorer.core.types.tensor_type import Array
from explorer.ops.base import EXPENSIVE, Elementwise, float_dtype
from explorer.ops.elementwise.unary import exp, square

__all__ = ["erf"]

# Rational approximations for |x| up to 0.84375, 1.25, 1 / 0.35 and 6. The lowest power comes first (fdlibm, s_erf.c).
_P0 = (
    1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02, -5.77027029648944159157e-03,
    -2.37630166566501626084e-05,
)  # fmt: skip
_Q0 = (
    1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
    1.32494738004321644526e-04, -3.96022827877536812320e-06,
)  # fmt: skip
_P1 = (
    -2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01, 3.18346619901161753674e-01,
    -1.10894694282396677476e-01, 3.54783043256182359371e-02, -2.16637559486879084300e-03,
)  # fmt: skip
_Q1 = (
    1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
    1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02,
)  # fmt: skip
_P2 = (
    -9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e01, -6.23753324503260060396e01,
    -1.62396669462573470355e02, -1.84605092906711035994e02, -8.12874355063065934246e01, -9.81432934416914548592e00,
)  # fmt: skip
_Q2 = (
    1.0, 1.96512716674392571292e01, 1.37657754143519042600e02, 4.34565877475229228821e02,
    6.45387271733267880336e02, 4.29008140027567833386e02, 1.08635005541779435134e02, 6.57024977031928170135e00,
    -6.04244152148580987438e-02,
)  # fmt: skip
_P3 = (
    -9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e01, -1.60636384855821916062e02,
    -6.37566443368389627722e02, -1.02509513161107724954e03, -4.83519191608651397019e02,
)  # fmt: skip
_Q3 = (
    1.0, 3.03380607434824582924e01, 3.25792512996573918826e02, 1.53672958608443695994e03,
    3.19985821950859553908e03, 2.55305040643316442583e03, 4.74528541206955367215e02, -2.24409524465858183362e01,
)  # fmt: skip
_AT_ONE = 8.45062911510467529297e-01
"""erf(1) rounded to 24 bits; the second approximation is added to it"""


def _singles(*coefficients: float) -> tuple[Array, ...]:
    """Return the coefficients as 0-d arrays, which ufuncs convert faster than Python floats."""
    return tuple([np.array(coefficient, np.float32) for coefficient in coefficients])


# In single precision erf(x) = tanh(x · P(x²)). P, of degree 6, is a minimax fit to artanh(erf x) / x for x below 4.2
# that minimizes the relative error of erf (iteratively reweighted least squares). tanh saturates for the same x as erf.
# The highest coefficient is positive, so the argument tends to ±∞ with x.
_P = _singles(
    1.128379225730896, 0.10276905447244644, -0.00019183152471669018, -0.0006197840557433665, 8.763711957726628e-05,
    -5.66844346394646e-06, 1.4185047803039197e-07,
)  # fmt: skip
_P_NUMBERS = tuple([part[()] for part in _P])


class Erf(Elementwise):
    """Error function 2/√π ∫₀ˣ e^(−t²) dt, accurate to 4 ulp in float32 and 1 ulp in float64."""

    reuses_operand = True
    monotone, weight, c = True, 2 * EXPENSIVE, "erf_{t}({0})"
    defined_everywhere = True
    examples = (Example(real(2, 3, low=-2.5, high=2.5)), Example(real()), Example(real(3, dtype="float32")))

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        return float_dtype(*dtypes)

    def kernel(self, out: Array, x: Array) -> Array:
        # half precision is computed in single precision and rounded
        if out.dtype.itemsize <= np.dtype(np.float32).itemsize:
            return _single(x, out)
        exact = np.atleast_1d(x).astype(np.float64)
        size = np.abs(exact)
        # erf is odd, and rounds to ±1 beyond ±6
        values = np.copysign(1.0, exact)
        values[np.isnan(exact)] = np.nan
        # comparisons with NaN are false, so the masks below exclude NaN
        near = size < 0.84375
        if near.any():
            z = exact[near] ** 2
            # computed as x + x · r, so that the relative error is small near 0
            values[near] = exact[near] * (1 + _ratio(_P0, _Q0, z))
        middle = (size >= 0.84375) & (size < 1.25)
        if middle.any():
            values[middle] *= _AT_ONE + _ratio(_P1, _Q1, size[middle] - 1)
        # Beyond 1.25 the quotient approximates log(x · erfc(x)) + x² + 0.5625, which stays small while erfc tends to 0.
        for low, high, numerator, denominator in ((1.25, 1 / 0.35, _P2, _Q2), (1 / 0.35, 6.0, _P3, _Q3)):
            far = (size >= low) & (size < high)
            if far.any():
                s = size[far]
                values[far] *= 1 - np.exp(-s * s - 0.5625 + _ratio(numerator, denominator, 1 / (s * s))) / s
        out[...] = values.reshape(out.shape)
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g * (exp(-square(x)) * (2 / math.sqrt(math.pi))),)


def _single(x: Array, out: Array) -> Array:
    # atleast_1d, because ufuncs write their results into these arrays
    values = np.atleast_1d(x).astype(np.float32, copy=False)
    # ufuncs of other devices accept NumPy scalars, but not NumPy arrays
    argument = _horner(_P if isinstance(x, np.ndarray) else _P_NUMBERS, values * values)
    np.multiply(argument, values, argument)
    np.tanh(argument.reshape(out.shape), out, dtype=np.float32, casting="same_kind")
    return out


def _horner(coefficients: tuple[Any, ...], x: Array) -> Array:
    """Evaluate a polynomial at ``x``; ``coefficients`` starts with the coefficient of the lowest power."""
    result: Array = np.multiply(x, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        np.add(result, coefficient, result)
        np.multiply(result, x, result)
    np.add(result, coefficients[0], result)
    return result


def _ratio(numerator: tuple[float, ...], denominator: tuple[float, ...], x: Array) -> Array:
    result: Array = np.divide(_horner(numerator, x), _horner(denominator, x))
    return result


erf = Erf()
