"""±0, ±∞ and NaN: numbers follow IEEE 754 with and without rules, ZeroTensor follows algebra."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Array

SPECIAL = np.array([-0.0, 0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.5, -1e-320])
COMPLEX = np.array([complex(a, b) for a, b in itertools.product((-0.0, 0.0, 1.5, np.inf, np.nan), repeat=2)])
WHOLE = np.array([0, 1, -1, 7], np.int32)
NUMBERS = (0, 0.0, -0.0, 1, 1.0, -1, 2, 0.5)
WRITTEN: dict[str, Callable[[Any, Any], Any]] = {
    "x + n": lambda x, n: x + n,
    "n + x": lambda x, n: n + x,
    "x - n": lambda x, n: x - n,
    "n - x": lambda x, n: n - x,
    "x * n": lambda x, n: x * n,
    "n * x": lambda x, n: n * x,
    "x / n": lambda x, n: x / n,
    "x ** n": np.power,
    "x * n + n": lambda x, n: x * n + n,
    "x + n - n": lambda x, n: x + n - n,
    "1 / (x + n)": lambda x, n: 1 / (x + n),
    "0 - (-x) + n": lambda x, n: 0 - np.negative(x) + n,
    "abs(x) + n": lambda x, n: abs(x) + n,
    "abs(sqrt(x)) * n": lambda x, n: abs(np.sqrt(x)) * n,
    "sqrt(x) ** n": lambda x, n: np.power(np.sqrt(x), n),
    "exp(x) + n": lambda x, n: np.exp(x) + n,
    "maximum(x, n)": lambda x, n: np.maximum(abs(x), n),
    "sum": lambda x, n: (x[None] * n).sum(axis=0, keepdims=True),
    "mean": lambda x, n: (x[:, None] * n).mean(axis=1, keepdims=True),
    "max": lambda x, n: (x[None] * n).max(axis=0, keepdims=True),
    "where": lambda x, n: np.where(x > n, x, x + n),
}


def bits(array: Array) -> list[str]:
    """Return the bytes of each number including zero signs; all NaNs are equal."""
    return [repr(number) for number in np.asarray(array).ravel().tolist()]


def evaluated(y: ex.Expr, **options: Any) -> Array:
    with np.errstate(all="ignore"):
        value: Array = ex.evaluate(y, **options)
    return value


@pytest.mark.spec("P-1", "M-D2", "M-O6")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.numpy_bits) if "exp" in name else name for name in WRITTEN]
)
def test_numbers_follow_ieee_754(name: str) -> None:
    """Results with ±0, ±∞ and NaN equal NumPy's, with and without the simplify pass."""
    call = WRITTEN[name]
    for array in (SPECIAL, SPECIAL.astype(np.float32), SPECIAL[:4].astype(np.float16), WHOLE):
        for number in NUMBERS:
            if array is WHOLE and (name == "x ** n" and number == -1):
                continue  # NumPy raises an error when it runs
            with np.errstate(all="ignore"):
                expected = call(array, number)
            y = call(ex.tensor(array), number)
            for value in (evaluated(y), evaluated(y, without="simplify")):
                assert bits(value) == bits(expected), f"{name} with n = {number!r} of {array.dtype}"


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("name", ["x + n", "n + x", "x - n", "x * n", "n * x", "x / n"])
def test_complex_numbers_follow_ieee_754(name: str) -> None:
    for number in (0, -0.0, 1, 1.0):
        y = WRITTEN[name](ex.tensor(COMPLEX), number)
        assert bits(evaluated(y)) == bits(evaluated(y, without="simplify")), number


ALGEBRAIC: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Array], Array], str]] = {
    "x + Z": (lambda x, z: x + z, lambda x: x, "zero_term"),
    "Z + x": (lambda x, z: z + x, lambda x: x, "zero_term"),
    "x - Z": (lambda x, z: x - z, lambda x: x, "zero_term"),
    "Z - x": (lambda x, z: z - x, np.negative, "zero_term"),
    "x * Z": (lambda x, z: x * z, np.zeros_like, "zero_product"),
    "Z * x": (lambda x, z: z * x, np.zeros_like, "zero_product"),
    "x + Z in a sum": (lambda x, z: ex.add_n(x, z, x), lambda x: x + x, "zero_term"),
}


@pytest.mark.spec("P-1", "M-D2")
@pytest.mark.parametrize("name", ALGEBRAIC)
def test_zerotensor_follows_algebra(name: str) -> None:
    """x + Z is x and x · Z is Z for any x; the decision states that IEEE's 0.0 would give another result."""
    write, expected, code = ALGEBRAIC[name]
    plan = ex.EvalPlan()
    handle = plan.register(write(ex.tensor(SPECIAL), ex.ZeroTensor(SPECIAL.shape, dtype=np.float64)))
    with np.errstate(all="ignore"):
        plan.eval()
        assert bits(handle.data()) == bits(expected(SPECIAL))
    (decisions,) = [decision for decision in plan.recording.decisions if decision.code == code]
    assert decisions.verdict == "applied"
    assert decisions.facts["instead"] == {"zero_term": "0.0", "zero_product": "NaN"}[code]


@pytest.mark.spec("P-1", "M-O5")
@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_a_reduction_over_no_axis_returns_its_operand(name: str) -> None:
    """This includes −0.0, with the rule that removes the reduction and without, where the kernel copies."""
    y = getattr(ex, name)(ex.tensor(SPECIAL), axis=())
    for value in (evaluated(y), evaluated(y, without="simplify")):
        assert bits(value) == bits(SPECIAL)
    constant = getattr(ex, name)(ex.TrivialTensor(-0.0, (2,), dtype=np.float64), axis=())
    assert bits(evaluated(constant)) == ["-0.0", "-0.0"]
