"""Expressions: recorded without computing, compared by identity, and rejecting meaningless operations."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.traversal import reachable
from tests.support.refusals import refused


@pytest.fixture
def x() -> ex.Tensor:
    return ex.tensor(np.arange(6.0).reshape(2, 3))


@pytest.mark.spec("M-O1")
def test_recording_computes_nothing(x: ex.Tensor) -> None:
    """No kernel runs while an expression is written, and its shape, dtype and rank are known."""
    calls = []

    class Watched(ex.Elementwise):
        """Identity that records when it runs."""

        examples = (ex.Example(ex.real(2)),)
        nondifferentiable = "it only watches what runs"

        def kernel(self, out: Any, a: Any) -> Any:
            calls.append(1)
            np.copyto(out, a)
            return out

    y = Watched()(x) @ np.ones((3, 4), np.float32)
    assert (y.shape, y.dtype, y.ndim, y.size, len(y)) == ((2, 4), np.float64, 2, 8, 2)
    assert y.tensor_type.category == "matrix"
    assert not calls
    ex.evaluate(y)
    assert len(calls) == 1


def test_uids_increase_and_operands_come_first(x: ex.Tensor) -> None:
    y = np.tanh(x) + x
    nodes = reachable([y])
    assert [node.uid for node in nodes] == sorted(node.uid for node in nodes)
    assert all(operand.uid < node.uid for node in nodes for operand in node.operands)
    assert np.tanh(x).uid != np.tanh(x).uid


def test_expressions_are_hashed_by_identity(x: ex.Tensor) -> None:
    first, second = np.tanh(x), np.tanh(x)
    assert len({first, second, x}) == 3
    assert hash(first) == hash(first)
    assert {first: 1}[first] == 1


def test_expressions_are_immutable(x: ex.Tensor) -> None:
    """Assigning to an element raises an error; += rebinds the name to a new expression."""
    held = y = np.tanh(x)
    for written in (x, y):
        with pytest.raises(ex.StateError, match=r"ex\.where"):
            written[0] = 1.0
    y += 1
    assert y is not held
    assert held.operation.name == "tanh"


def test_a_copy_is_the_expression_itself(x: ex.Tensor) -> None:
    assert copy.copy(x) is x
    assert copy.deepcopy({"x": [x]})["x"][0] is x
    with pytest.raises(ex.StateError, match="identity"):
        pickle.dumps(np.tanh(x))


def test_a_chain_of_100_000_is_built_printed_walked_and_freed(x: ex.Tensor) -> None:
    """Nothing recurses over a graph."""
    y: ex.Expr = x
    for _ in range(100_000):
        y = y + x
    assert repr(y).startswith("<add #")
    assert "2×3 float64" in repr(y)
    assert len(reachable([y])) == 100_001
    with pytest.raises(ex.StateError):
        pickle.dumps(y)
    assert copy.deepcopy(y) is y
    del y
    gc.collect()


@pytest.mark.parametrize("convert", [bool, float, int, complex])
def test_a_single_element_converts_to_a_number(convert: Any, x: ex.Tensor) -> None:
    assert convert(x.sum()) == convert(15.0)
    assert type(convert(x.sum())) is convert


@pytest.mark.parametrize("convert", [bool, float, int])
def test_several_elements_do_not_convert_to_a_number(convert: Any, x: ex.Tensor) -> None:
    with refused(ex.OperandError, "element") as caught:
        convert(x)
    assert "ex.where" in str(caught.value)


def test_comparisons_record(x: ex.Tensor) -> None:
    """== and others record NumPy's elementwise comparisons."""
    array = np.asarray(x)
    for value, expected in (
        (x == 2, array == 2),
        (x != x[0], array != array[0]),
        (x < 2, array < 2),
        (x > 2, array > 2),
        (x <= 2, array <= 2),
        (x >= 2.5, array >= 2.5),
        ((x > 1) & (x < 4) | ~(x > 0), (array > 1) & (array < 4) | ~(array > 0)),
    ):
        assert value.dtype == np.bool_
        np.testing.assert_array_equal(ex.evaluate(value), expected)


def test_logical_operators_accept_only_booleans(x: ex.Tensor) -> None:
    with pytest.raises(ex.OperandError, match="bitwise_and is not defined"):
        x & x


def test_arrays_of_expressions(x: ex.Tensor) -> None:
    """np.asarray evaluates to a read-only array; np.array returns a writable copy."""
    y = x + 1
    assert not np.asarray(y).flags.writeable
    mine = np.array(y)
    mine[0, 0] = 7
    assert np.asarray(y)[0, 0] == 1
    assert np.asarray(y, np.float32).dtype == np.float32
    with refused(ex.StateError):
        np.array(y, copy=False)


def test_iteration_and_length(x: ex.Tensor) -> None:
    first, second = x
    np.testing.assert_array_equal(ex.evaluate(second), [3.0, 4.0, 5.0])
    assert first.shape == (3,)
    with pytest.raises(ex.OperandError, match="scalar"):
        len(x.sum())
    with pytest.raises(ex.OperandError, match="scalar"):
        list(x.sum())


def test_values_with_several_outputs_must_be_unpacked_first(x: ex.Tensor) -> None:
    @ex.function
    def both(a: ex.Expr) -> tuple[ex.Expr, ex.Expr]:
        return a + 1, a.sum()

    pair = both(x)[0].operands[0]
    with pytest.raises(ex.OperandError, match="unpack"):
        _ = pair.shape
    with pytest.raises(ex.OperandError, match="unpack"):
        np.tanh(pair)


INDICES: list[Any] = [
    0, -1, np.int64(1), slice(None), slice(1, None), slice(None, None, -1), slice(-10, None, -1), slice(5, 2),
    slice(0, -9), slice(10, 0, -2), (0, 1), (slice(None), 1), (..., -1), (None, 0), (slice(None), None, slice(0, 3, 2)),
    ..., None, (), (slice(2, 0, -1), slice(0, 0)), (1, ..., None),
]  # fmt: skip


@pytest.mark.spec("M-D8")
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_indexing_equals_numpys(index: Any, x: ex.Tensor) -> None:
    """Integers, slices of any step, None and Ellipsis select NumPy's elements, and gradients match."""
    part = x[index]
    expected = np.asarray(x)[index]
    assert part.shape == expected.shape
    np.testing.assert_array_equal(ex.evaluate(part), expected)
    back = np.zeros((2, 3))
    back[index] += 2.0
    np.testing.assert_array_equal(ex.evaluate(ex.grad((2 * part).sum(), x)), back)


@pytest.mark.parametrize(
    "index", [2, -3, 1.0, True, [0.5], "a", (0, 0, 0), (..., ...), slice(0.5, 2), slice(None, None, 0)]
)
def test_other_indices_raise_an_error(index: Any, x: ex.Tensor) -> None:
    with pytest.raises(ex.OperandError):
        x[index]
    with pytest.raises(ex.OperandError, match=r"ex\.where"):
        x[x > 0]


@pytest.mark.parametrize("method", ["sum", "mean", "max", "min"])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), (), [1], np.int64(1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_equal_numpys(method: str, axis: Any, keepdims: bool, x: ex.Tensor) -> None:
    plain = tuple(axis) if isinstance(axis, list) else axis
    expected = getattr(np.asarray(x), method)(axis=plain, keepdims=keepdims)
    value = getattr(x, method)(axis=axis, keepdims=keepdims)
    assert value.shape == expected.shape
    np.testing.assert_allclose(ex.evaluate(value), expected)


def test_shapes_equal_numpys(x: ex.Tensor) -> None:
    assert x.reshape(3, 2).shape == x.reshape((3, -1)).shape == (3, 2)
    assert x.reshape(-1).shape == (6,)
    assert x.T.shape == x.transpose().shape == x.transpose(1, 0).shape == x.transpose((1, 0)).shape == (3, 2)
    assert x.astype(np.float32).dtype == np.float32
    assert x.astype("float64").type is x.type
    for wrong in ((4, 2), (-1, -1), (2.0, 3), (-2, -3), ("a",)):
        with pytest.raises(ex.OperandError):
            x.reshape(wrong)
    for axes in ((0, 0), (0,), (0, 2), (0.5, 1)):
        with pytest.raises(ex.OperandError):
            x.transpose(axes)
    for dtype in ("nonsense", None, object, str):
        with pytest.raises(ex.OperandError):
            x.astype(dtype)


def test_the_error_of_a_mistyped_name_lists_similar_ones() -> None:
    with pytest.raises(AttributeError, match="no attribute 'sofmax'; near names: softmax"):
        ex.sofmax  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute '_ipython_display_'$"):
        ex._ipython_display_  # noqa: B018
