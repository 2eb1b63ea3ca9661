"""The Python array API standard, version 2024.12: every function of the main namespace, compared with NumPy's.

NumPy 2 implements the standard, so a call ``call(np, array)`` is the reference of ``call(ex.array_api, tensor)``. A
case is skipped only if `explorer.array_api.inspection.ABSENT` or `LIMITS` lists it with a reason.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import array_api as xp
from explorer.array_api.inspection import ABSENT
from tests.support.representatives import representatives

CONSTANTS = ("e", "inf", "nan", "newaxis", "pi")
_NAMES = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to can_cast ceil
clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty empty_like equal exp
expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag
isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nextafter nonzero
not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder repeat reshape result_type roll round
searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take take_along_axis tan tanh
tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot where zeros
zeros_like
"""
FUNCTIONS = _NAMES.split()
"""functions of the main namespace in version 2024.12"""
BY_VALUE = {name for name, reason in ABSENT.items() if "values" in reason}

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIGNED = INTEGERS[:4]
REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
FLOATING = (*REAL, *COMPLEX)
NUMERIC = (*INTEGERS, *FLOATING)
DTYPES = ("bool", *NUMERIC)
SHAPES = ((), (3,), (2, 3), (0, 3), (2, 1, 3))

UNARY: dict[str, tuple[str, ...]] = {
    "abs": NUMERIC,
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh"), FLOATING),
    "bitwise_invert": ("bool", *INTEGERS),
    **dict.fromkeys(("ceil", "floor", "trunc"), (*INTEGERS, *REAL)),
    **dict.fromkeys(("cos", "cosh", "exp", "expm1", "log", "log10", "log1p", "log2"), FLOATING),
    **dict.fromkeys(("isfinite", "isinf", "isnan"), NUMERIC),
    "logical_not": ("bool",),
    "negative": (*SIGNED, *FLOATING),
    **dict.fromkeys(("positive", "round", "sign", "square"), NUMERIC),
    "reciprocal": FLOATING,
    "signbit": REAL,
    **dict.fromkeys(("conj", "imag", "real"), NUMERIC),
    **dict.fromkeys(("sin", "sinh", "sqrt", "tan", "tanh"), FLOATING),
}
"""function of one operand → its dtypes in the standard"""
BINARY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "multiply", "subtract", "pow"), NUMERIC),
    **dict.fromkeys(("atan2", "copysign", "hypot", "logaddexp", "nextafter"), REAL),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("bool", *INTEGERS)),
    **dict.fromkeys(("bitwise_left_shift", "bitwise_right_shift"), INTEGERS),
    "divide": FLOATING,
    **dict.fromkeys(("equal", "not_equal"), ("bool", *NUMERIC)),
    **dict.fromkeys(("floor_divide", "remainder", "maximum", "minimum"), (*INTEGERS, *REAL)),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), (*INTEGERS, *REAL)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ("bool",)),
}
"""function of two operands → its dtypes in the standard"""
Call = Callable[..., Any]


def axes(name: str, **options: Any) -> list[Call]:
    return [
        lambda xp, x, axis=axis, keepdims=keepdims: getattr(xp, name)(x, axis=axis, keepdims=keepdims, **options)
        for axis in (None, 0, -1)
        for keepdims in (False, True)
    ]


def index_axes(name: str) -> list[Call]:
    return [
        lambda xp, x: getattr(xp, name)(x),
        lambda xp, x: getattr(xp, name)(x, axis=0),
        lambda xp, x: getattr(xp, name)(x, axis=-1, keepdims=True),
    ]


def indices(xp: Any, *numbers: int) -> Any:
    return xp.asarray(list(numbers), dtype=xp.int64)


OTHER: dict[str, tuple[tuple[str, ...], list[Call]]] = {
    **{name: (("bool", *NUMERIC), axes(name)) for name in ("all", "any")},
    **{name: ((*INTEGERS, *REAL), axes(name)) for name in ("max", "min")},
    "mean": (REAL, axes("mean")),
    "sum": (
        NUMERIC,
        [*axes("sum"), lambda xp, x: xp.sum(x, axis=0, dtype=x.dtype)],
    ),
    "prod": (NUMERIC, [*axes("prod"), lambda xp, x: xp.prod(x, dtype=x.dtype)]),
    "std": (REAL, [*axes("std"), lambda xp, x: xp.std(x, axis=-1, correction=1.0)]),
    "var": (
        REAL,
        [*axes("var"), lambda xp, x: xp.var(x, correction=1), lambda xp, x: xp.var(x, axis=0, correction=0.5)],
    ),
    "count_nonzero": (("bool", *NUMERIC), axes("count_nonzero")),
    **{name: ((*INTEGERS, *REAL), index_axes(name)) for name in ("argmax", "argmin")},
    "argsort": (
        (*INTEGERS, *REAL),
        [lambda xp, x: xp.argsort(x, stable=True), lambda xp, x: xp.argsort(x, axis=0, stable=True)],
    ),
    "sort": ((*INTEGERS, *REAL), [lambda xp, x: xp.sort(x), lambda xp, x: xp.sort(x, axis=0, stable=True)]),
    "searchsorted": (
        (*INTEGERS, *REAL),
        [
            lambda xp, x: xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), x),
            lambda xp, x: xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), x, side="right"),
            lambda xp, x: xp.searchsorted(xp.asarray([0.0, 1.0, xp.nan, xp.nan]), xp.where(x > 1, x, xp.nan)),
            lambda xp, x: xp.searchsorted(xp.asarray([0.0, xp.nan]), xp.asarray([xp.nan, 0.0]), side="right"),
            lambda xp, x: xp.searchsorted(x, 1) if x.ndim != 1 else xp.searchsorted(x, 1, side="above"),
        ],
    ),
    "where": (("bool", *NUMERIC), [lambda xp, x: xp.where(x == x, x, xp.zeros_like(x))]),
    "cumulative_sum": (
        NUMERIC,
        [
            lambda xp, x: xp.cumulative_sum(x, axis=-1),
            lambda xp, x: xp.cumulative_sum(x, axis=0, include_initial=True),
        ],
    ),
    "cumulative_prod": (NUMERIC, [lambda xp, x: xp.cumulative_prod(x, axis=0, include_initial=True)]),
    "diff": (
        NUMERIC,
        [
            lambda xp, x: xp.diff(x),
            lambda xp, x: xp.diff(x, axis=0, n=2),
            lambda xp, x: xp.diff(x, prepend=x[..., :1], append=x[..., :1]),
            lambda xp, x: xp.diff(xp.astype(x, xp.bool), append=x),
        ],
    ),
    "arange": (
        (),
        [lambda xp: xp.arange(5), lambda xp: xp.arange(1, 7, 2, dtype=xp.int16), lambda xp: xp.arange(0.0, 1.0, 0.25)],
    ),
    "linspace": ((), [lambda xp: xp.linspace(0, 1, 5), lambda xp: xp.linspace(1, 3, 4, endpoint=False)]),
    "eye": ((), [lambda xp: xp.eye(3), lambda xp: xp.eye(2, 4, k=1, dtype=xp.int32)]),
    "zeros": ((), [lambda xp: xp.zeros((2, 3)), lambda xp: xp.zeros(3, dtype=xp.bool)]),
    "ones": ((), [lambda xp: xp.ones((2, 0)), lambda xp: xp.ones((), dtype=xp.complex64)]),
    "empty": ((), [lambda xp: xp.empty((2, 3), dtype=xp.int8) * 0]),
    "full": (
        (),
        [lambda xp: xp.full((2, 2), 3), lambda xp: xp.full(2, 0.5), lambda xp: xp.full((1,), 1, dtype=xp.uint8)],
    ),
    "asarray": (
        ("bool", *NUMERIC),
        [
            lambda xp, x: xp.asarray(x),
            lambda xp, x: xp.asarray([1, 2]),
            lambda xp, x: xp.asarray(2.5, dtype=xp.float32),
        ],
    ),
    "from_dlpack": (NUMERIC, [lambda xp, x: xp.from_dlpack(x)]),
    "full_like": (NUMERIC, [lambda xp, x: xp.full_like(x, 3), lambda xp, x: xp.full_like(x, 1, dtype=xp.float64)]),
    **{
        name: (("bool", *NUMERIC), [lambda xp, x, name=name: getattr(xp, name)(x)])
        for name in ("zeros_like", "ones_like")
    },
    "empty_like": (NUMERIC, [lambda xp, x: xp.empty_like(x).shape]),
    "meshgrid": (NUMERIC, [lambda xp, x: xp.meshgrid(x[..., 0], xp.arange(2)) if x.ndim == 2 else ()]),
    **{
        name: (
            NUMERIC,
            [lambda xp, x, name=name, k=k: getattr(xp, name)(x, k=k) if x.ndim > 1 else () for k in (0, 1, -1)],
        )
        for name in ("tril", "triu")
    },
    "astype": (INTEGERS, [lambda xp, x: xp.astype(x, xp.float64), lambda xp, x: xp.astype(x, xp.bool)]),
    "broadcast_arrays": (NUMERIC, [lambda xp, x: xp.broadcast_arrays(x, xp.asarray([1, 2, 3]))]),
    "broadcast_to": (NUMERIC, [lambda xp, x: xp.broadcast_to(x, (2, *x.shape))]),
    "can_cast": (
        NUMERIC,
        [lambda xp, x: xp.can_cast(x.dtype, xp.float32), lambda xp, x: xp.can_cast(xp.int8, x.dtype)],
    ),
    "finfo": (
        FLOATING,
        [lambda xp, x: (xp.finfo(x.dtype).eps, xp.finfo(x.dtype).bits, xp.finfo(x.dtype).smallest_normal)],
    ),
    "iinfo": (INTEGERS, [lambda xp, x: (xp.iinfo(x.dtype).max, xp.iinfo(x.dtype).min, xp.iinfo(x.dtype).bits)]),
    "isdtype": (
        ("bool", *NUMERIC),
        [
            lambda xp, x, kind=kind: xp.isdtype(x.dtype, kind)
            for kind in ("bool", "integral", "numeric", "real floating")
        ],
    ),
    "result_type": (NUMERIC, [lambda xp, x: [xp.result_type(x, xp.float32).name, xp.result_type(x, 1).name]]),
    "take": (
        NUMERIC,
        [
            lambda xp, x: xp.take(x, indices(xp, 2, 0), axis=-1) if x.ndim else (),
            lambda xp, x: xp.take(x[..., 0, :], indices(xp, 1), axis=-1),
        ],
    ),
    "take_along_axis": (
        NUMERIC,
        [lambda xp, x: xp.take_along_axis(x, xp.zeros(x.shape, dtype=xp.int64), axis=-1)],
    ),
    "concat": (
        NUMERIC,
        [
            lambda xp, x: xp.concat([x, x]),
            lambda xp, x: xp.concat((x, x), axis=-1),
            lambda xp, x: xp.concat([x, x], axis=None),
        ],
    ),
    "expand_dims": (NUMERIC, [lambda xp, x: xp.expand_dims(x, axis=0), lambda xp, x: xp.expand_dims(x, axis=-1)]),
    "flip": (NUMERIC, [lambda xp, x: xp.flip(x), lambda xp, x: xp.flip(x, axis=-1)]),
    "moveaxis": (NUMERIC, [lambda xp, x: xp.moveaxis(x, 0, -1)]),
    "permute_dims": (NUMERIC, [lambda xp, x: xp.permute_dims(x, tuple(range(x.ndim))[::-1])]),
    "repeat": (NUMERIC, [lambda xp, x: xp.repeat(x, 2), lambda xp, x: xp.repeat(x, 3, axis=-1)]),
    "reshape": (NUMERIC, [lambda xp, x: xp.reshape(x, (-1,)), lambda xp, x: xp.reshape(x, (1, *x.shape), copy=True)]),
    "roll": (NUMERIC, [lambda xp, x: xp.roll(x, 1), lambda xp, x: xp.roll(x, (1, -1), axis=(0, -1))]),
    "squeeze": (NUMERIC, [lambda xp, x: xp.squeeze(xp.expand_dims(x, axis=0), axis=0)]),
    "stack": (NUMERIC, [lambda xp, x: xp.stack([x, x]), lambda xp, x: xp.stack((x, x), axis=-1)]),
    "tile": (NUMERIC, [lambda xp, x: xp.tile(x, (2, 1)), lambda xp, x: xp.tile(x, (3,))]),
    "unstack": (NUMERIC, [lambda xp, x: xp.unstack(x), lambda xp, x: xp.unstack(x, axis=-1)]),
    "clip": (
        (*INTEGERS, *REAL),
        [
            lambda xp, x: xp.clip(x, 1, 3),
            lambda xp, x: xp.clip(x, min=2),
            lambda xp, x: xp.clip(x, None, x),
            lambda xp, x: xp.clip(x, None, None),
            lambda xp, x: xp.clip(x, 0.5, xp.asarray([1.5])),
            lambda xp, x: xp.clip(x, indices(xp, 300), None),
        ],
    ),
    "matmul": (
        NUMERIC,
        [lambda xp, x: xp.matmul(small(xp, x), xp.matrix_transpose(small(xp, x))) if x.ndim > 1 else ()],
    ),
    "matrix_transpose": (NUMERIC, [lambda xp, x: xp.matrix_transpose(x) if x.ndim > 1 else ()]),
    "tensordot": (NUMERIC, [lambda xp, x: xp.tensordot(small(xp, x), small(xp, x), axes=0)]),
    "vecdot": (
        NUMERIC,
        [
            lambda xp, x: xp.vecdot(small(xp, x), small(xp, x)) if x.ndim else (),
            lambda xp, x: xp.vecdot(x * 0 + 1j, x * 0 + 2, axis=0) if x.ndim and "f4" not in x.dtype.str else (),
        ],
    ),
}
"""function → its dtypes, and calls with a namespace and an operand; no dtypes: calls without an operand"""

OPERATORS: dict[str, tuple[tuple[str, ...], Call]] = {
    **{name: (NUMERIC, getattr(operator, name)) for name in ("add", "sub", "mul", "pow")},
    "truediv": (FLOATING, operator.truediv),
    **{name: ((*INTEGERS, *REAL), getattr(operator, name)) for name in ("floordiv", "mod", "lt", "le", "gt", "ge")},
    **{name: (("bool", *NUMERIC), getattr(operator, name)) for name in ("eq", "ne")},
    **{name: (("bool", *INTEGERS), getattr(operator, name)) for name in ("and_", "or_", "xor")},
    **{name: (INTEGERS, getattr(operator, name)) for name in ("lshift", "rshift")},
    "matmul": (NUMERIC, lambda a, b: a @ b.mT if a.ndim > 1 else a * b),
    **{name: (FLOATING, lambda a, b, of=of: of(a)) for name, of in {"neg": operator.neg, "abs": abs}.items()},
    "pos": (NUMERIC, lambda a, b: +a),
    "invert": (("bool", *INTEGERS), lambda a, b: ~a),
    "iadd": (NUMERIC, lambda a, b: operator.iadd(a * 1, b)),
    "radd": (FLOATING, lambda a, b: 2.0 + a),
    "rsub": (FLOATING, lambda a, b: 2.0 - a),
    "rtruediv": (FLOATING, lambda a, b: 2.0 / a),
    "rpow": (FLOATING, lambda a, b: 2.0**a),
    "getitem": (NUMERIC, lambda a, b: a[..., None, ::-1] if a.ndim else a[()]),
}
"""operator of the array object → its dtypes, and a call with two operands"""

LIMITS: dict[tuple[str, str], str] = {}
"""(function, dtype) that is skipped → reason"""


def small(namespace: Any, x: Any) -> Any:
    """Return numbers of few digits in the shape of an operand, whose products and sums are exact."""
    size = int(np.prod(x.shape))
    return namespace.reshape(namespace.astype(namespace.arange(1, 1 + size), x.dtype), x.shape)


def operand(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Return finite elements of a dtype, from a fixed seed."""
    generator = np.random.default_rng([seed, len(shape), *shape])
    if dtype == "bool":
        return np.asarray(generator.random(shape) < 0.5)
    if np.dtype(dtype).kind in "iu":
        return np.asarray(generator.integers(0 if dtype[0] == "u" else -4, 6, shape), dtype)
    values = generator.normal(size=shape) * 2
    return np.asarray(values + 1j * generator.normal(size=shape) if "complex" in dtype else values, dtype)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except Exception as error:
        return error


def check(call: Call, arrays: tuple[Any, ...], message: str) -> None:
    """Compare a call on expressions with the same call on arrays; an error must be one in both."""
    expected = outcome(lambda: call(np, *arrays))
    found = outcome(lambda: call(xp, *map(ex.tensor, arrays)))
    if isinstance(expected, Exception):
        assert isinstance(found, ex.ExplorerError), f"{message}: NumPy raises {expected!r}, Explorer gives {found!r}"
        return
    assert not isinstance(found, Exception), f"{message}: {found!r}"
    several = isinstance(expected, (tuple, list))
    for part, wanted in zip(found, expected, strict=True) if several else [(found, expected)]:
        with np.errstate(all="ignore"):
            value = ex.evaluate(part) if isinstance(part, ex.Expr) else part
        if not isinstance(part, ex.Expr):
            assert value == wanted, message
            continue
        assert (value.shape, value.dtype) == (np.shape(wanted), np.asarray(wanted).dtype), message
        kind = value.dtype
        near = 64 * float(np.finfo(kind).eps) if kind.kind in "fc" else 0
        np.testing.assert_allclose(value, wanted, rtol=near, atol=near, equal_nan=True, err_msg=message)


def calls_of(name: str) -> Iterator[tuple[str, list[Call], int]]:
    """Yield the dtype, the calls, and the number of operands of each case of a function."""
    if name in UNARY:
        for dtype in UNARY[name]:
            yield dtype, [lambda xp, x: getattr(xp, name)(x)], 1
    elif name in BINARY:
        for dtype in BINARY[name]:
            yield dtype, [lambda xp, x, y: getattr(xp, name)(x, y)], 2
    else:
        dtypes, calls = OTHER[name]
        for dtype in dtypes or ("",):
            yield dtype, calls, 1 if dtypes else 0


EVERY = [(name, dtype) for name in FUNCTIONS if name not in ABSENT for dtype, _, _ in calls_of(name)]
CASES = [case for case in EVERY if case not in LIMITS]
FIRST = {name: (name, dtype) for name, dtype in reversed(CASES)}


@pytest.mark.spec("H-8")
@pytest.mark.parametrize(("name", "dtype"), representatives(CASES, [*FIRST.values()]))
def test_a_function_of_the_standard_equals_numpys(name: str, dtype: str) -> None:
    """Compare shape, dtype and values for operands of ranks 0 to 3, also without elements."""
    ((calls, count),) = [(calls, count) for each, calls, count in calls_of(name) if each == dtype]
    for number, call in enumerate(calls):
        for shape in SHAPES if count else [()]:
            arrays = tuple(operand(shape, dtype, seed) for seed in range(count))
            if "shift" in name or name == "pow":
                arrays = (arrays[0], np.abs(arrays[1]) if dtype != "uint8" else arrays[1])
            check(call, arrays, f"xp.{name} ({number}) of {[(array.shape, array.dtype.name) for array in arrays]}")


@pytest.mark.spec("H-8", headline=True)
def test_the_namespace_has_the_standards_names_except_the_listed_ones() -> None:
    """Compute with the Python array API standard: its functions, dtypes and operators, by name and as NumPy does."""
    missing = {name for name in (*FUNCTIONS, *CONSTANTS, *DTYPES) if not hasattr(xp, name)}
    assert missing == set(ABSENT)
    assert len(missing - BY_VALUE) / len(set(FUNCTIONS) - BY_VALUE) < 0.05
    assert ex.tensor([1.0]).__array_namespace__() is xp
    assert {*UNARY, *BINARY, *OTHER} == {*FUNCTIONS} - {*ABSENT}
    assert {*LIMITS} <= {*EVERY}
    assert len(CASES) / len(EVERY) >= 0.95


@pytest.mark.spec("H-8")
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_of_an_expression_equals_numpys(name: str) -> None:
    """Compare the operators of the array object for every dtype of the standard."""
    dtypes, call = OPERATORS[name]
    for dtype in dtypes:
        for shape in SHAPES:
            a, b = operand(shape, dtype), operand(shape, dtype, 1)
            if name in ("lshift", "rshift", "pow"):
                b = np.abs(b)
            check(lambda _, a, b: call(a, b), (a, b), f"{name} of {shape} {dtype}")
