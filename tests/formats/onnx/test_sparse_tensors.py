"""Sparse tensors in ONNX files: initializers and constants, with flat or per-axis indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, SparseTensorProto, helper, numpy_helper

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened

pytestmark = pytest.mark.spec("I-9")

X = np.arange(8, dtype=np.float32).reshape(2, 4)
PLACES = np.array([[0, 1], [1, 2], [3, 0]])
DENSE = np.float32([[0, 1, 0], [0, 0, 2], [0, 0, 0], [3, 0, 0]])


def sparse(places: NDArray[np.int64], shape: tuple[int, ...] = (4, 3), count: int = 3) -> SparseTensorProto:
    values = numpy_helper.from_array(np.arange(1, count + 1, dtype=np.float32), "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, "places"), shape)


def product(weight: SparseTensorProto) -> ModelProto:
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, X.shape)}, ["y"])
    proto.graph.sparse_initializer.append(weight)
    return proto


@pytest.mark.parametrize("places", [PLACES, PLACES @ [3, 1]])
def test_sparse_weights_equal_dense_ones(places: NDArray[np.int64], tmp_path: Path) -> None:
    net = opened(product(sparse(places)), tmp_path)
    assert net.check() == []
    np.testing.assert_array_equal(net.run(X), X @ DENSE)
    np.testing.assert_array_equal(net["MatMul_1"].weights["B"], DENSE)
    constant = node("Constant", [], ["w"])
    constant.attribute.append(helper.make_attribute("sparse_value", sparse(places)))
    proto = model([constant, node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, X.shape)}, ["y"])
    np.testing.assert_array_equal(opened(proto, tmp_path).run(X), X @ DENSE)


def test_a_net_with_sparse_weights_is_saved_with_dense_ones(tmp_path: Path) -> None:
    opened(product(sparse(PLACES)), tmp_path).save(tmp_path / "dense.onnx")
    np.testing.assert_array_equal(ex.open(tmp_path / "dense.onnx").run(X), X @ DENSE)


def test_a_scalar_may_be_sparse(tmp_path: Path) -> None:
    """Its indices have no coordinates."""
    net = opened(product(sparse(np.zeros((1, 0), np.int64), (), 1)), tmp_path)
    assert net["MatMul_1"].weights["B"] == 1


@pytest.mark.parametrize(
    ("places", "words"),
    [
        (PLACES * 2, r"an element at \[2, 4\]\n.*must be in 0 … 3, 0 … 2"),
        (np.array([-1, 0, 5]), r"an element at \[-1\]\n.*must be in 0 … 11"),
        (PLACES[[0, 2, 0]], r"two elements at \[0, 1\]\n.*must have at most one element at each index"),
        (np.array([7, 5, 5]), r"two elements at \[5\]\n.*must have at most one element at each index"),
        (PLACES[:2], "at indices of int64, shape"),
        (PLACES[:, :, None], "a vector, and each must have one int64 index"),
    ],
)
def test_indices_outside_a_sparse_tensor_raise_an_error(places: NDArray[np.int64], words: str, tmp_path: Path) -> None:
    with pytest.raises(ex.FileError, match=words):
        opened(product(sparse(places)), tmp_path).run(X)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
@pytest.mark.parametrize("places", [np.zeros((1, 2), np.int64), np.zeros(1, np.int64)])
def test_a_sparse_tensor_with_a_size_of_0_has_no_elements(
    places: NDArray[np.int64], shape: tuple[int, ...], tmp_path: Path
) -> None:
    net = opened(product(sparse(places, shape, 1)), tmp_path)
    with pytest.raises(ex.FileError, match=r"an element at \[0.*\n.*no elements if one of its sizes is 0"):
        net.definition.weights["w"]
    assert opened(product(sparse(places[:0], shape, 0)), tmp_path).definition.weights["w"].shape == shape


def test_a_sparse_tensor_with_a_huge_claimed_shape_raises_an_error_before_allocation(tmp_path: Path) -> None:
    net = opened(product(sparse(np.array([0, 1, 2]), (4, 10**12))), tmp_path)
    with pytest.raises(ex.BudgetError, match=r"sparse tensor 'w' claims .* of memory"):
        net.definition.weights["w"]


def test_a_sparse_tensor_with_an_unknown_dtype_opens_like_a_dense_one(tmp_path: Path) -> None:
    weight = sparse(PLACES)
    weight.values.data_type = 99
    net = opened(product(weight), tmp_path)
    assert "data type 99" in str(net.check()[0])
