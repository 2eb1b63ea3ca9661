"""Composed functions against NumPy: sorting, repetition, padding, and Einstein sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.nn.training_modes import batch_norm_by_batch

generator = np.random.default_rng(0)
SOLID = generator.normal(size=(3, 4, 5))
GIVEN = {
    "float64": SOLID,
    "float32": SOLID.astype(np.float32),
    "integers": generator.integers(-3, 9, (4, 6)).astype(np.int32),
    "truths": generator.integers(0, 2, (4, 6)).astype(bool),
    "one": np.ones((1, 1)),
    "nothing": np.zeros((0, 3)),
    "nan": np.array([[1.0, np.nan, 3.0, np.nan, -1.0]]),
}
SAME_NAME: dict[str, Callable[[Any], Any]] = {
    "argmax": np.argmax,
    "argmax last": lambda x: np.argmax(x, -1),
    "argmin kept": lambda x: np.argmin(x, 0, keepdims=True),
    "sort": np.sort,
    "sort first": lambda x: np.sort(x, 0),
    "var": np.var,
    "var corrected": lambda x: np.var(x, -1, ddof=1),
    "std": lambda x: np.std(x, 0, keepdims=True),
    "prod": lambda x: np.prod(x, -1),
    "all": lambda x: np.all(x, 0, keepdims=True),
    "any": lambda x: np.any(x, -1),
    "flip": np.flip,
    "flip last": lambda x: np.flip(x, -1),
    "roll": lambda x: np.roll(x, 2),
    "roll far": lambda x: np.roll(x, -7, -1),
    "roll twice": lambda x: np.roll(x, (1, 2), (0, -1)),
    "tile": lambda x: np.tile(x, (2, 1, 1, 3)),
    "tile never": lambda x: np.tile(x, 0),
    "repeat": lambda x: np.repeat(x, 3),
    "repeat last": lambda x: np.repeat(x, 2, -1),
    "tril": np.tril,
    "triu": lambda x: np.triu(x, -1),
    "cumsum": np.cumsum,
    "cumsum last": lambda x: np.cumsum(x, -1),
    "isnan": np.isnan,
    "isfinite": np.isfinite,
    "take": lambda x: np.take(x, np.array([[0, -1], [0, 0]]), -1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.zeros((1,) * x.ndim, int), -1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "clip by tensors": lambda x: np.clip(x, np.asarray(0.5), np.asarray(1.5)),
    "pad": lambda x: np.pad(x, 1),
    "pad a value": lambda x: np.pad(x, ((0, 2),) * x.ndim, constant_values=1),
    "pad edge": lambda x: np.pad(x, ((1, 3),) * x.ndim, mode="edge"),
    "pad reflect": lambda x: np.pad(x, ((0, 0),) * (x.ndim - 1) + ((2, 1),), mode="reflect"),
    "pad wrap": lambda x: np.pad(x, ((1, 0),) * x.ndim, mode="wrap"),
}


def outcome(function: Callable[[Any], Any], x: Any) -> Any:
    """Return the value, or None if the call raises an error."""
    with np.errstate(all="ignore"):
        try:
            return ex.evaluate(function(ex.tensor(x))) if isinstance(x, np.ndarray) else None
        except ex.OperandError:
            return None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.spec("C-18")
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", SAME_NAME)
def test_functions_equal_numpys_of_the_same_name(name: str, given: str) -> None:
    """NumPy's functions on expressions record, and give NumPy's values, shapes and dtypes, or are refused as there."""
    function, x = SAME_NAME[name], GIVEN[given]
    try:
        expected = np.asarray(function(x))
    except (ValueError, IndexError, TypeError):
        assert outcome(function, x) is None
        return
    if name == "pad reflect" and x.shape[-1] < 3:
        assert outcome(function, x) is None  # NumPy reflects repeatedly, torch and ONNX raise an error
        return
    result = outcome(function, x)
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable(descending: bool) -> None:
    x = generator.integers(0, 3, (4, 50)).astype(np.uint8)
    result = ex.evaluate(ex.argsort(ex.tensor(x), descending=descending))
    np.testing.assert_array_equal(result, np.argsort(255 - x if descending else x, kind="stable"))
    values, places = ex.evaluate(ex.topk(ex.tensor(x), 3, largest=descending))
    np.testing.assert_array_equal(places, result[:, :3])
    np.testing.assert_array_equal(values, np.take_along_axis(x, result, 1)[:, :3])


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_sums(exclusive: bool, reverse: bool) -> None:
    x = np.arange(1.0, 6.0)
    expected = [sum(x[i + exclusive :]) if reverse else sum(x[: i + 1 - exclusive]) for i in range(5)]
    np.testing.assert_array_equal(ex.evaluate(ex.cumsum(ex.tensor(x), exclusive=exclusive, reverse=reverse)), expected)


EQUATIONS = {
    "ij,jk": ((2, 3), (3, 4)),
    "ij,jk->ki": ((2, 3), (3, 4)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "i,j->ij": ((3,), (4,)),
    "ij->j": ((2, 3),),
    "abc,cd,be->ade": ((2, 3, 4), (4, 5), (3, 6)),
    "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)),
    "ij,k->": ((2, 0), (3,)),
    "ab,cd->dbca": ((2, 3), (4, 5)),
    "...ij,...jk->...ik": ((5, 2, 3), (3, 4)),
    "...ij,...jk": ((6, 1, 2, 3), (5, 3, 4)),
    "i...,i->...": ((2, 3, 4), (2,)),
    "aiji->ja": ((2, 3, 4, 3),),
    "iii->i": ((2, 2, 2),),
    "i,->i": ((3,), ()),
    "ij,jk->ik": ((2, 1), (3, 4)),
    "ii,ii->": ((1, 1), (3, 3)),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einstein_sums(equation: str) -> None:
    """Test any operands, ellipses, diagonals and repeated axes against NumPy."""
    operands = [generator.normal(size=shape) for shape in EQUATIONS[equation]]
    result = ex.evaluate(ex.einsum(equation, *map(ex.tensor, operands)))
    expected = np.einsum(equation, *operands)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "float16"])
@pytest.mark.parametrize("equation", ["ii", "ij->i", "ij,ij->", "ij,jk,k->i", "ij,kl->i"])
def test_einsum_keeps_dtypes(equation: str, dtype: str) -> None:
    shapes = [(3,) * len(part) for part in equation.partition("->")[0].split(",")]
    operands = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape in shapes]
    value, expected = ex.evaluate(ex.einsum(equation, *map(ex.tensor, operands))), np.einsum(equation, *operands)
    assert value.dtype == expected.dtype
    np.testing.assert_array_equal(value, expected)


LINE, IMAGE = ex.tensor(np.arange(4.0)), ex.tensor(np.ones((1, 4, 3, 3)))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ex.einsum("ij,jk", IMAGE, LINE), "one letter for each axis"),
        (lambda: ex.einsum("i,i", LINE, LINE[:3]), "i has 4 and 3"),
        (lambda: ex.einsum("i->ij", LINE), "must be unique and occur in an operand"),
        (lambda: ex.einsum("i+j", LINE), "an equation must have letters"),
        (lambda: ex.pad(LINE, 1, "mirror"), "one of constant, reflect, edge, wrap"),
        (lambda: ex.pad(LINE, 4, "reflect"), "at most 3 elements"),
        (lambda: ex.pad(LINE, (-3, -2)), "must not exceed"),
        (lambda: ex.pad(LINE, ((1, 1), (1, 1))), "a pair .before, after. for each axis"),
        (lambda: ex.pad(LINE.astype(np.uint8), 1, constant_values=300), "in dtype uint8"),
        (lambda: ex.take(LINE, LINE), "indices must be integers"),
        (lambda: ex.take_along_axis(IMAGE, ex.tensor([1]), 1), "as many axes"),
        (lambda: ex.topk(LINE, 5), "k must be in 0 … 4"),
        (lambda: ex.argmax(LINE[:0]), "at least one element"),
        (lambda: ex.resize(IMAGE, (2, 2), method="cubist"), "the method must be one of"),
        (lambda: ex.resize(IMAGE, (0, 2)), "the new length .0. must be"),
        (lambda: ex.resize(IMAGE, (2, 2), (1,)), "one size per axis"),
        (
            lambda: ex.conv_transpose2d(IMAGE, np.ones((4, 1, 3, 3)), strides=2, output_padding=2),
            "smaller than the stride",
        ),
        (lambda: ex.conv_transpose2d(IMAGE, np.ones((4, 1, 3, 3)), padding=3), "at least one element"),
        (lambda: ex.conv_transpose2d(IMAGE, np.ones((3, 1, 3, 3))), "filters .C, O / groups"),
        (lambda: ex.group_norm(IMAGE, 3), "divisible by the number of groups"),
        (lambda: ex.pixel_shuffle(IMAGE, 3), "divisible by 9"),
        (lambda: ex.glu(LINE[:3]), "even length"),
        (lambda: ex.prelu(IMAGE, np.ones(3)), "one for each channel"),
        (lambda: ex.attention(IMAGE, LINE, LINE), "queries must be"),
        (lambda: ex.tile(LINE, -1), "not be negative"),
        (lambda: ex.moveaxis(IMAGE, (0, 1), (2, 2)), "one destination"),
    ],
)
def test_errors_of_invalid_arguments_contain_the_rule(make: Callable[[], Any], said: str) -> None:
    """The error is raised when the call is written."""
    with pytest.raises(ex.OperandError, match=said):
        make()


def test_indices_out_of_range_are_reported() -> None:
    for make in (ex.take, lambda x, n: ex.take_along_axis(x, n, 0)):
        np.testing.assert_array_equal(ex.evaluate(make(LINE, np.array([-4, 3]))), [0, 3])
        for wrong in (4, -5):
            with pytest.raises(ex.RunError, match=f"row {wrong} of a table with rows 0 … 3"):
                ex.evaluate(make(LINE, np.array([0, wrong])))


def test_nan_is_preserved() -> None:
    x = ex.tensor(np.array([np.nan, -9.0, 0.25]))
    for y in (ex.threshold(x, 0.0, 5.0), ex.softshrink(x), ex.hardshrink(x), ex.elu(x), ex.prelu(x, np.array([0.5]))):
        np.testing.assert_array_equal(np.isnan(ex.evaluate(y)), [True, False, False])


def test_a_query_without_keys_gets_zeros() -> None:
    q, k = ex.tensor(generator.normal(size=(2, 3))), ex.tensor(generator.normal(size=(4, 3)))
    mask = np.array([[False] * 4, [True, False, True, False]])
    with np.errstate(invalid="ignore"):
        result = ex.evaluate(ex.attention(q, k, k, mask))
    np.testing.assert_array_equal(result[0], 0)
    np.testing.assert_allclose(result[1:], ex.evaluate(ex.attention(q[1:], k[::2], k[::2])), rtol=1e-12)


def test_norms_and_deviations_have_a_zero_gradient_at_zero() -> None:
    """For zeros, or equal elements, norm and deviation have the gradient 0, as in torch; other rows are unaffected."""
    rows = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 4.0], [2.0, 2.0, 2.0], [np.nan, 1.0, 0.0]])
    x = ex.tensor(rows)
    length, deviation = ex.vector_norm(x, axis=1), ex.std(x, axis=1)
    np.testing.assert_array_equal(ex.evaluate(length), np.linalg.norm(rows, axis=1))
    np.testing.assert_array_equal(ex.evaluate(deviation), np.std(rows, axis=1))
    for without in ((), ("simplify",)):
        slope = ex.evaluate(ex.grad(length, x, seed=np.ones(4)), without=without)
        np.testing.assert_allclose(slope[:3], [[0, 0, 0], [0.6, 0, 0.8], [3**-0.5] * 3])
        slope = ex.evaluate(ex.grad(deviation, x, seed=np.ones(4)), without=without)
        assert not slope[[0, 2]].any()
        assert np.isfinite(slope[:3]).all()
        assert np.isnan(slope[3]).all()


@pytest.mark.parametrize("activation", [ex.elu, ex.selu, ex.celu])
def test_an_overflowing_unselected_exponential_does_not_affect_the_gradient(activation: Any) -> None:
    x = ex.tensor([1000.0, -1000.0])
    value, slope = ex.evaluate((activation(x), ex.grad(activation(x).sum(), x)))
    assert np.isfinite(value).all()
    np.testing.assert_allclose(slope, [value[0] / 1000, 0.0], atol=1e-12)


@pytest.mark.parametrize(
    "activation", [ex.relu, ex.relu6, ex.softshrink, ex.hardshrink, ex.elu, ex.leaky_relu, ex.silu]
)
def test_nan_stays_nan(activation: Any) -> None:
    assert np.isnan(ex.evaluate(activation(ex.tensor([np.nan, 1.0])))).tolist() == [True, False]


@pytest.mark.spec("U-6")
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e5])
def test_the_variance_of_rows_far_from_zero(offset: float) -> None:
    """float32 variances over leading axes, and in a batch normalization's training, equal float64's."""
    x = (generator.normal(size=(20_000, 4)) + offset).astype(np.float32)
    exact = x.astype(np.float64)
    variance, mean = exact.var(0), exact.mean(0)
    np.testing.assert_allclose(ex.evaluate(ex.var(ex.tensor(x), 0)), variance, rtol=1e-3)
    np.testing.assert_allclose(ex.evaluate(ex.std(ex.tensor(x), 0, ddof=1)), exact.std(0, ddof=1), rtol=1e-3)
    zeros, ones = ex.tensor(np.zeros(4, np.float32)), ex.tensor(np.ones(4, np.float32))
    done = batch_norm_by_batch(ex.tensor(x), zeros, ones, ones, zeros, 0.0, 0.9, "a test")
    normalized, found = ex.evaluate([done.value, done.variance])
    np.testing.assert_allclose(found, variance, rtol=1e-3)
    np.testing.assert_allclose(normalized, (exact - mean) / np.sqrt(variance), rtol=1e-3, atol=1e-2)
