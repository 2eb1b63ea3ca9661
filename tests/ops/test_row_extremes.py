"""Row maxima and minima, found through indices or from an initial value, equal NumPy's reductions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from explorer.ops.nn.softmax import LogSoftmax, LogSumExp, Softmax
from explorer.ops.reduction.reduce import Max, Min
from explorer.ops.reduction.row_extremes import row_extremes

SHAPES = [(2, 2), (5, 3), (5000, 3), (7, 32), (7, 36), (9, 40), (2, 3, 4, 5), (3, 1, 64), (3, 1000)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("operation", "ufunc"), [(Max, np.maximum), (Min, np.minimum)])
def test_extremes_equal_numpys(operation: type[Max | Min], ufunc: np.ufunc, dtype: str) -> None:
    random = np.random.default_rng(0)
    for shape, special in itertools.product(SHAPES, ([], [np.nan], [np.inf, -np.inf], [np.nan, np.inf])):
        x = random.standard_normal(shape).astype(dtype)
        places = random.integers(0, x.size, 8)
        x.reshape(-1)[places] = [*special * 8][:8] if special else 0
        x[0] = -np.inf if special else x[0]
        for axes in {(len(shape) - 1,), tuple(range(1, len(shape)))}:
            expected = ufunc.reduce(x, axes)
            out = np.empty_like(expected)
            assert row_extremes(ufunc, x, axes, out) is not None
            call = operation(axes).bind_kernel(out, x)
            for _ in range(2):  # bound once and called again with other elements in the same array
                assert call() is out
                np.testing.assert_array_equal(out, ufunc.reduce(x, axes))
                x *= -1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("operation", "ufunc"), [(Max, np.maximum), (Min, np.minimum)])
def test_extremes_of_both_zeros_have_the_sign_of_numpys(
    operation: type[Max | Min], ufunc: np.ufunc, dtype: str
) -> None:
    for length in (2, 3, 7, 20):
        x = np.random.default_rng(0).choice(
            np.array([0.0, -0.0, 1.0, -1.0], dtype), (200, length), p=[0.4, 0.4, 0.1, 0.1]
        )
        out = np.empty(200, dtype)
        assert row_extremes(ufunc, x, (1,), out) is not None
        operation((1,)).bind_kernel(out, x)()
        assert out.tobytes() == ufunc.reduce(x, 1).tobytes()


def test_numpys_reduction_is_used_where_it_is_as_fast() -> None:
    """Test one row, strided rows, rows of one element, integers, and arrays that argmax would copy."""
    x = np.arange(600, dtype=np.float32).reshape(20, 30)
    sealed = x.copy()
    sealed.flags.writeable = False
    for array, axes in (
        (x[:1], (1,)),
        (x[:, ::2], (1,)),
        (x, (0,)),
        (x[:, :1], (1,)),
        (x.astype(int), (1,)),
        (sealed, (1,)),
    ):
        out = np.empty([size for axis, size in enumerate(array.shape) if axis not in axes], array.dtype)
        assert row_extremes(np.maximum, array, axes, out) is None
        np.testing.assert_array_equal(Max(axes).bind_kernel(out, array)(), np.max(array, axes))


@pytest.mark.parametrize("length", [10, 32, 40])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_rows_of_infinities_and_nan(dtype: str, length: int) -> None:
    """Test rows of only −∞, of only ∞, and with NaN; bound kernels give equal results."""
    x = np.random.default_rng(1).standard_normal((6, length)).astype(dtype)
    x[0], x[1], x[2, 3], x[3, 4], x[4, 5] = -np.inf, np.inf, np.nan, np.inf, -np.inf
    for operation in (Softmax((1,)), LogSoftmax((1,))):
        out = np.empty_like(x)
        with np.errstate(all="ignore"):
            bound = np.array(operation.bind_kernel(out, x)())
        sealed = x.copy()
        sealed.flags.writeable = False
        np.testing.assert_array_equal(bound, operation.compute(sealed))
    with np.errstate(all="ignore"):
        expected = np.log(np.exp(x.astype(float)).sum(1))
    np.testing.assert_allclose(LogSumExp((1,)).compute(x), expected, rtol=1e-5)
