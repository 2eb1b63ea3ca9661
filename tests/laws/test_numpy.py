"""Names shared by NumPy and the registry mean the same, or the NumPy call raises an error."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import explorer as ex
import explorer.ops  # registers the operations, which this module lists when it is imported
from explorer.core import registry
from explorer.core.array_api.numpy_functions import DESCRIBED, FUNCTIONS, REDUCTIONS, REFUSED, UFUNCS
from explorer.core.errors import ExplorerError
from explorer.core.types.tensor_type import Array

DTYPES = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex128")
SHAPES = ((), (3,), (2, 3), (0, 3))
PAIRS = (((), ()), ((3,), (3,)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((2, 1, 3), (2, 1)), ((0, 3), (3,)), ((), (2, 2)))
MIXED = (("int32", "float32"), ("uint8", "int8"), ("int64", "uint64"), ("bool", "float16"), ("float32", "complex128"))
NUMBERS: tuple[Any, ...] = (2, 0, -1, 300, 0.5, -0.0, 2**40, True, float("inf"))
SPECIAL = (-0.0, 0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 2.5, -3.0, 100.0, -0.5)
OWN = "explorer."


def drawn(shape: tuple[int, ...], dtype: str, turn: int = 0) -> Array:
    """Return elements that include signed zeros, infinities, NaN and the limits of the dtype."""
    kind, size = np.dtype(dtype), int(np.prod(shape))
    if kind.kind in "fc":
        values: Any = np.roll(SPECIAL, -turn)
    elif kind.kind == "b":
        values = np.roll([True, False, False, True, True], turn)
    else:
        info = np.iinfo(kind)
        values = np.roll(np.array([3, 0, info.max, 1, info.min, 7, 2], kind), turn)
    with np.errstate(all="ignore"):
        return np.resize(values, size).reshape(shape).astype(kind)


def outcome(call: Callable[..., Any], *operands: Any) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of an empty array
            return call(*operands)
    except Exception as error:
        return error


def assert_alike(found: Any, expected: Any, signs: bool = True) -> None:
    """Assert equal shape, dtype, zero signs and NaN positions, and equal values up to rounding."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    for part, wanted in ((found.real, expected.real), (found.imag, expected.imag)):
        near = 16 * float(np.finfo(expected.dtype).eps)
        np.testing.assert_allclose(part, wanted, rtol=near, atol=0, equal_nan=True)
        zeros = (wanted == 0) & signs
        np.testing.assert_array_equal(np.signbit(part[zeros]), np.signbit(wanted[zeros]))


def compare(call: Callable[..., Any], operands: list[tuple[Any, ...]], told: str, of_nothing: bool = False) -> set[str]:
    """Compare a call on expressions with the call on arrays; return the operand dtypes that only Explorer rejects.

    ``of_nothing``: where no axis is reduced, the result is the operand. NumPy starts from 0.0, which changes −0.0, and
    divides complex numbers by 1, which turns infinities into NaN.
    """
    accepted: list[tuple[Any, Any, tuple[Any, ...], bool]] = []
    refused: set[str] = set()
    for arrays in operands:
        expected = outcome(call, *arrays)
        instance = outcome(call, *[ex.tensor(array) if isinstance(array, np.ndarray) else array for array in arrays])
        if isinstance(instance, Exception):
            assert isinstance(instance, ExplorerError), f"{told} of {arrays}: {instance!r}"
            if not isinstance(expected, Exception):
                refused.add(" ".join([getattr(array, "dtype", np.dtype("O")).name for array in arrays]))
            continue
        parts = instance if isinstance(instance, (tuple, list)) else (instance,)
        if isinstance(expected, Exception):
            values = outcome(ex.evaluate, [part for part in parts if isinstance(part, ex.Expr)])
            assert isinstance(values, ExplorerError), f"{told} of {arrays}: NumPy refuses it, {expected!r}"
            continue
        wanted = expected if isinstance(expected, (tuple, list)) else (expected,)
        same = of_nothing and np.shape(wanted[0]) == np.shape(arrays[0])
        if same and arrays[0].dtype.kind == "c":
            continue
        accepted += [(part, value, arrays, not same) for part, value in zip(parts, wanted, strict=True)]
    assert accepted, f"no call of {told} is recorded"
    with np.errstate(all="ignore"):
        values = ex.evaluate([part for part, _, _, _ in accepted])
    for result, (_, expected, arrays, signs) in zip(values, accepted, strict=True):
        try:
            assert_alike(result, expected, signs)
        except AssertionError as error:
            raise AssertionError(f"{told} of {arrays}: {error}") from error
    return refused


def ufuncs() -> dict[str, np.ufunc]:
    """Return the recording NumPy ufuncs by name."""
    results = {value.__name__: value for value in vars(np).values() if isinstance(value, np.ufunc)}
    own = {name for name, operation_class in registry.operations.items() if operation_class.__module__.startswith(OWN)}
    declared = {name for name in own if getattr(registry.operations[name], "ufunc", None) is results.get(name)}
    return {name: results[name] for name in sorted(results) if name in declared or name in UFUNCS}


UFUNCS_RECORDED = ufuncs()


@pytest.mark.spec("M-O1", "M-O6")
@pytest.mark.parametrize("name", UFUNCS_RECORDED)
def test_a_ufunc_of_an_expression_equals_numpys(name: str) -> None:
    """Test dtypes, ranks, broadcasting, weak numbers, ±0, ±∞, NaN and empty arrays."""
    ufunc = UFUNCS_RECORDED[name]
    operands: list[tuple[Any, ...]] = []
    for dtype in DTYPES:
        if ufunc.nin == 1:
            operands += [(drawn(shape, dtype, turn),) for shape in SHAPES for turn in (0, 4, 8)]
            continue
        for turn, (left, right) in itertools.product((0, 1, 3, 5), PAIRS):
            operands.append((drawn(left, dtype, turn), drawn(right, dtype, 2 * turn)))
        for number in NUMBERS:
            operands += [(drawn((4,), dtype), number), (number, drawn((4,), dtype))]
    if ufunc.nin == 2:
        operands += [(drawn((3,), one), drawn((3,), other, 1)) for pair in MIXED for one, other in (pair, pair[::-1])]
    refused = compare(ufunc, operands, f"np.{name}")
    assert not refused, f"np.{name} of {sorted(refused)} is refused without need"


@pytest.mark.spec("M-O1")
@pytest.mark.parametrize("name", ["equal", "less", "greater_equal", "divide", "hypot", "add", "bitwise_and"])
def test_an_int_beyond_64_bits_is_an_operand_as_in_numpy(name: str) -> None:
    """Comparisons of integers are exact, real functions compute in float64, and others raise an error."""
    ufunc = UFUNCS_RECORDED[name]
    for dtype in ("int8", "int64", "uint64"):
        for number in (2**63, -(2**63) - 1, 2**64):
            a = drawn((4,), dtype)
            for operands in ((a, number), (number, a)):
                expected = outcome(ufunc, *operands)
                found = outcome(ufunc, *[ex.tensor(x) if isinstance(x, np.ndarray) else x for x in operands])
                if isinstance(expected, Exception):
                    assert isinstance(found, ExplorerError)
                else:
                    assert_alike(ex.evaluate(found), expected)


def _axes(call: Callable[..., Any], *more: Any) -> list[Callable[[Array], Any]]:
    """Return calls of a NumPy function along all axes, each axis, and several axes, with and without keepdims."""
    axes = (None, 0, -1, 1, (), (0, 1), *more)
    return [
        *[lambda a, axis=axis: call(a, axis=axis) for axis in axes],
        *[lambda a, axis=axis: call(a, axis, keepdims=True) for axis in (None, 0, -1)],
    ]


def _along(call: Callable[..., Any]) -> list[Callable[[Array], Any]]:
    return [lambda a, axis=axis: call(a, axis=axis) for axis in (None, 0, 1, -1)]


ROW = np.array([1, 0, 2])
CALLS: dict[str, list[Callable[[Any], Any]]] = {
    **{name: _axes(getattr(np, name)) for name in ("all", "any", "max", "min", "mean", "prod", "sum", "amax", "amin")},
    **{
        name: [*_axes(getattr(np, name)), lambda a, name=name: getattr(np, name)(a, 0, None, None, 1)]
        for name in ("std", "var")
    },
    **{name: _along(getattr(np, name)) for name in ("argmax", "argmin", "cumsum", "flip")},
    "ravel": [np.ravel, lambda a: np.ravel(a, "C")],
    **{name: [getattr(np, name)] for name in ("round", "around")},
    "fix": [np.fix],
    "swapaxes": [lambda a: np.swapaxes(a, 0, -1), lambda a: np.swapaxes(a, axis1=-1, axis2=0)],
    **{name: [lambda a, name=name: getattr(np, name)((a, a))] for name in ("hstack", "vstack", "column_stack")},
    **{name: [getattr(np, name)] for name in ("flipud", "fliplr", "matrix_transpose")},
    **{name: [lambda a, name=name: getattr(np, name)(a, a)] for name in ("outer", "inner")},
    "sort": [np.sort, lambda a: np.sort(a, 0), lambda a: np.sort(a, kind="stable")],
    "argsort": [lambda a: np.argsort(a, kind="stable"), lambda a: np.argsort(a, axis=0, stable=True)],
    "broadcast_to": [lambda a: np.broadcast_to(a, (2, 2, 3)), lambda a: np.broadcast_to(array=a, shape=a.shape)],
    "clip": [lambda a: np.clip(a, 0, 1), lambda a: np.clip(a, None, a_max=2), lambda a: np.clip(a, min=1)],
    "concatenate": [
        lambda a: np.concatenate([a, a]),
        lambda a: np.concatenate((a, a), -1),
        lambda a: np.concatenate((a, a), None),
    ],
    "dot": [lambda a: np.dot(a, a.T), lambda a: np.dot(a, 2), lambda a: np.dot(a, ROW.astype(a.dtype))],
    "einsum": [
        lambda a: np.einsum("...->...", a),
        lambda a: np.einsum("ij->ji", a),
        lambda a: np.einsum("ij,ij->i", a, a),
    ],
    "expand_dims": [lambda a, axis=axis: np.expand_dims(a, axis) for axis in (0, -1, 1, (0, 2), (0, 1))],
    "moveaxis": [lambda a: np.moveaxis(a, 0, -1), lambda a: np.moveaxis(a, (0, 1), (1, 0))],
    "pad": [
        lambda a: np.pad(a, 1),
        lambda a: np.pad(a, (1, 2), constant_values=1),
        lambda a: np.pad(a, ((0, 1), (2, 0))),
        *[lambda a, mode=mode: np.pad(a, 1, mode) for mode in ("edge", "reflect", "wrap")],
    ],
    "repeat": [lambda a: np.repeat(a, 2), lambda a: np.repeat(a, 3, 0), lambda a: np.repeat(a, repeats=0, axis=-1)],
    "reshape": [
        lambda a: np.reshape(a, -1),
        lambda a: np.reshape(a, (3, -1)),
        lambda a: np.reshape(a, shape=(1, -1, 1)),
    ],
    "resize": [lambda a: np.resize(a, (2, 2)), lambda a: np.resize(a, 5), lambda a: np.resize(a, (4, 4))],
    "roll": [lambda a: np.roll(a, 1), lambda a: np.roll(a, -2, 0), lambda a: np.roll(a, (1, 2), (0, 1))],
    "squeeze": [np.squeeze, lambda a: np.squeeze(a[None], 0), lambda a: np.squeeze(a[None, ..., None], axis=(0, -1))],
    "stack": [lambda a: np.stack([a, a]), lambda a: np.stack((a, a), axis=-1), lambda a: np.stack([a, a], 1)],
    "take": [lambda a: np.take(a, ROW[:2]), lambda a: np.take(a, [[0, -1]], axis=0), lambda a: np.take(a, 0, -1)],
    "take_along_axis": [
        lambda a: np.take_along_axis(a, np.zeros(a.shape, int)),
        lambda a: np.take_along_axis(a, np.zeros(a.shape, int), 0),
    ],
    "tensordot": [
        lambda a: np.tensordot(a, a),
        lambda a: np.tensordot(a, a, ((0, 1), (0, 1))),
        lambda a: np.tensordot(a, a, axes=0),
    ],
    "tile": [lambda a: np.tile(a, 2), lambda a: np.tile(a, (2, 1, 2)), lambda a: np.tile(A=a, reps=(1, 2))],
    "transpose": [np.transpose, lambda a: np.transpose(a, (1, 0)), lambda a: np.transpose(a, axes=(-1, 0))],
    "tril": [np.tril, lambda a: np.tril(a, 1), lambda a: np.tril(m=a, k=-1)],
    "triu": [np.triu, lambda a: np.triu(a, 1), lambda a: np.triu(m=a, k=-1)],
    "append": [lambda a: np.append(a, a), lambda a: np.append(a, a, 0)],
    "imag": [np.imag],
    "real": [np.real],
    "searchsorted": [
        lambda a: np.searchsorted(ROW[[1, 0]], np.reshape(a, -1)[:3]),
        lambda a: np.searchsorted(np.sort(np.reshape(a, -1)), 1, side="right"),
    ],
    "linalg.vecdot": [lambda a: np.linalg.vecdot(a[:, :1], a[:, :1])],
    "array_split": [lambda a: np.array_split(a, 2), lambda a: np.array_split(a, [1, 2], -1)],
    "atleast_1d": [np.atleast_1d, lambda a: np.atleast_1d(a, a)],
    "atleast_2d": [np.atleast_2d],
    "broadcast_arrays": [
        lambda a: np.broadcast_arrays(a, a[:1]),
        lambda a: np.broadcast_arrays(a, ROW.astype(a.dtype)),
    ],
    "copy": [np.copy],
    "count_nonzero": [
        *[lambda a, axis=axis: np.count_nonzero(a, axis) for axis in (0, -1, (0, 1))],
        lambda a: np.count_nonzero(a, keepdims=True),
    ],
    "cumprod": _along(np.cumprod),
    "cumulative_prod": [*_along(np.cumulative_prod)[1:], lambda a: np.cumulative_prod(a, axis=0, include_initial=True)],
    "cumulative_sum": [*_along(np.cumulative_sum)[1:], lambda a: np.cumulative_sum(a, axis=-1, include_initial=True)],
    "diag": [np.diag, lambda a: np.diag(a, 1), lambda a: np.diag(a, k=-1)],
    "diagonal": [np.diagonal, lambda a: np.diagonal(a, 1, -1, 0), lambda a: np.diagonal(a, offset=-1)],
    "diff": [
        np.diff,
        lambda a: np.diff(a, 2, 0),
        lambda a: np.diff(a, 0),
        lambda a: np.diff(a, prepend=a[..., :1], append=a[..., -1:]),
    ],
    "linalg.diagonal": [np.linalg.diagonal, lambda a: np.linalg.diagonal(a, offset=1)],
    "linalg.matmul": [lambda a: np.linalg.matmul(a, a.T)],
    "linalg.matrix_transpose": [np.linalg.matrix_transpose],
    "linalg.norm": [
        np.linalg.norm,
        lambda a: np.linalg.norm(a, axis=-1),
        lambda a: np.linalg.norm(a, 1, axis=0, keepdims=True),
        lambda a: np.linalg.norm(a, "fro"),
    ],
    "linalg.outer": [lambda a: np.linalg.outer(a, a)],
    "linalg.tensordot": [lambda a: np.linalg.tensordot(a, a), lambda a: np.linalg.tensordot(a, a, axes=0)],
    "linalg.trace": [np.linalg.trace],
    "linalg.vector_norm": [
        np.linalg.vector_norm,
        lambda a: np.linalg.vector_norm(a, axis=(0, 1)),
        lambda a: np.linalg.vector_norm(a, axis=-1, ord=1),
    ],
    "meshgrid": [lambda a: np.meshgrid(a, a), lambda a: np.meshgrid(a, a, a, indexing="ij")],
    "ptp": [np.ptp, lambda a: np.ptp(a, 0, keepdims=True)],
    "rollaxis": [lambda a: np.rollaxis(a, -1), lambda a: np.rollaxis(a, 0, 2)],
    "split": [lambda a: np.split(a, 3, -1), lambda a: np.split(a, [1])],
    "trace": [np.trace, lambda a: np.trace(a, 1, 1, 0)],
    "unstack": [np.unstack, lambda a: np.unstack(a, axis=-1)],
    "where": [lambda a: np.where(a, a, 1), lambda a: np.where(a > 0, a, a + a), lambda a: np.where(a != 0, 2, a)],
}
"""NumPy function → calls with one operand"""
CONTRACTIONS = ("dot", "einsum", "tensordot", "linalg.matmul", "linalg.tensordot")
"""functions whose sums of products have no fixed order, compared on integers"""
ORDERED = ("argmax", "argmin", "sort", "argsort", "searchsorted")
"""functions that reject complex numbers, because those have no order"""


@pytest.mark.spec("M-O1", "M-O6", "H-8")
@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_an_expression_equals_numpys_or_raises_an_error(name: str) -> None:
    """Test recording functions and functions that share only a name, over dtypes, ranks and special values."""
    operands = [(drawn(shape, dtype, turn),) for dtype in DTYPES for shape in (*SHAPES, (2, 2, 3)) for turn in (0, 4)]
    if name in CONTRACTIONS:
        operands = [(np.arange(1, 1 + array.size).reshape(array.shape).astype(array.dtype),) for (array,) in operands]
    for number, call in enumerate(CALLS[name]):
        if name in REFUSED:
            for operand in operands:
                with pytest.raises(ex.OperandError, match=f"np.{name} of an expression"):
                    call(ex.tensor(*operand))
            continue
        refused = compare(call, operands, f"np.{name} ({number})", name in ("sum", "mean"))
        assert refused == ({"complex128"} if name in ORDERED else set()), (
            f"np.{name} ({number}) of {sorted(refused)} is refused without need"
        )


def shared() -> set[str]:
    """Return registry names that are also NumPy functions or ufuncs, without those that tests register."""
    own = {name for name, value in registry.functions.items() if value.__module__.startswith(OWN)}
    own |= {*dir(ex)} - {*registry.functions}
    return {name for name in own if callable(getattr(np, name, None))}


@pytest.mark.spec("M-O1")
def test_every_name_shared_with_numpy_is_tested_or_rejected() -> None:
    """A shared name has the same meaning and is tested here, or raises an error with a reason."""
    tested = {*UFUNCS_RECORDED, *CALLS}
    assert shared() - tested - {*REFUSED} == set(), (
        "explorer/core/array_api/numpy_functions.py must list them, and CALLS have calls of them"
    )
    assert {*FUNCTIONS} <= {*CALLS}
    assert not {*FUNCTIONS} & {*REFUSED}
    assert {*UFUNCS} <= {*UFUNCS_RECORDED}
    for name in (*FUNCTIONS, *REFUSED, *DESCRIBED, *REDUCTIONS, *UFUNCS):
        assert callable(attrgetter(name)(np)), name


@pytest.mark.spec("M-O1")
@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_reduce_method_of_a_ufunc_equals_numpys(name: str) -> None:
    """Test np.add.reduce and others along every axis."""
    ufunc = getattr(np, name)
    calls: list[Callable[[Any], Any]] = [ufunc.reduce, *_axes(ufunc.reduce)[:-3]]
    for call in calls:
        compare(
            call,
            [(drawn((2, 3), dtype),) for dtype in ("bool", "int64", "float32", "float64")],
            f"np.{name}.reduce",
            name == "add",
        )


def test_a_custom_operation_records_a_ufunc_only_if_it_declares_it() -> None:
    """A custom operation with a ufunc's name is not recorded for the ufunc unless it declares the ufunc."""

    class Spacing(ex.Elementwise):
        """A different function with the name of np.spacing."""

        examples = (ex.Example(ex.real(3)),)
        nondifferentiable = "it is a test"

        def kernel(self, out: Any, a: Any) -> Any:
            return np.negative(a, out=out)

    try:
        with pytest.raises(ex.UnknownNameError):
            np.spacing(ex.tensor([1.0]))
    finally:
        del registry.operations["spacing"], registry.functions["spacing"]
