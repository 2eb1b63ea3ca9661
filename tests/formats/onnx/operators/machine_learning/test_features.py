"""Feature operators of ai.onnx.ml, with numbers that are easy to check by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, INT64, model, opened
from tests.formats.onnx.operators.machine_learning.one_operator import X, net_of
from tests.support.refusals import refused

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")


def test_a_scaler_has_an_offset_and_a_factor_for_each_feature(tmp_path: Path) -> None:
    y = net_of(tmp_path, "Scaler", offset=[1.0, 2.0], scale=[2.0, 0.5]).run(X)
    np.testing.assert_array_equal(y, (X - [1, 2]) * np.float32([2, 0.5]))


@pytest.mark.parametrize(
    ("norm", "order"),
    [("MAX", np.inf), ("L1", 1), ("L2", 2)],
)
def test_a_normalizer_divides_rows_by_their_norm_and_keeps_zeros(tmp_path: Path, norm: str, order: float) -> None:
    x = X.copy()
    x[1] = 0
    sizes = np.linalg.norm(x, order, axis=1, keepdims=True)
    expected = x / np.where(sizes == 0, 1, sizes)
    np.testing.assert_allclose(net_of(tmp_path, "Normalizer", norm=norm).run(x), expected, rtol=1e-6)


def test_mismatching_attributes_raise_an_error(tmp_path: Path) -> None:
    for type, arguments, rule in (
        ("Scaler", {"offset": ["a", "b"], "scale": [1.0]}, "offset must be a number or a list of numbers"),
        ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [1.0]}, "one number, or one per feature"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "a coefficient per feature"),
    ):
        (finding,) = net_of(tmp_path, type, checked=False, **arguments).check()
        assert rule in finding


def test_an_imputer_replaces_a_number_in_each_feature(tmp_path: Path) -> None:
    y = net_of(tmp_path, "Imputer", imputed_value_floats=[9.0, 8.0], replaced_value_float=2.0).run(X)
    np.testing.assert_array_equal(y, np.float32([[1, 8], [3, 4], [-1, 0.5]]))


def test_an_imputer_of_integers_keeps_all_digits(tmp_path: Path) -> None:
    node = helper.make_node(
        "Imputer", ["x"], ["y"], domain="ai.onnx.ml", imputed_value_int64s=[2**53 + 1], replaced_value_int64=-1
    )
    file = model([node], {"x": (INT64, [2])}, ["y"])
    file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    assert opened(file, tmp_path).run(np.array([-1, 5])).tolist() == [2**53 + 1, 5]


def test_columns_are_concatenated(tmp_path: Path) -> None:
    node = helper.make_node("FeatureVectorizer", ["x", "n"], ["y"], domain="ai.onnx.ml", inputdimensions=[2, 1])
    inputs = {"x": (FLOAT, [3, 2]), "n": (INT64, [3, 1])}
    proto = model([node], inputs, ["y"])
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    net = opened(proto, tmp_path)
    assert net.check() == []
    y = net.run(X, np.array([[7], [8], [9]]))
    np.testing.assert_array_equal(y, np.float32([[1, 2, 7], [3, 4, 8], [-1, 0.5, 9]]))


def test_features_are_selected_in_any_order(tmp_path: Path) -> None:
    net = net_of_two(tmp_path, "ArrayFeatureExtractor", X, np.array([[1, 0, 1]]))
    np.testing.assert_array_equal(net.run(X), X[:, [1, 0, 1]])


def net_of_two(folder: Path, type: str, x: Any, y: Any) -> Net:
    proto = model(
        [helper.make_node(type, ["x", "y"], ["z"], domain="ai.onnx.ml")], {"x": (FLOAT, x.shape)}, ["z"], {"y": y}
    )
    proto.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return opened(proto, folder)


def _dictionary_net(folder: Path, keys: list[Any], dtype: int = FLOAT) -> Net:
    """Return a net of one DictVectorizer, whose input is a map."""
    is_text = isinstance(keys[0], str)
    key = TensorProto.STRING if is_text else TensorProto.INT64
    node = helper.make_node(
        "DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml",
        **{"string_vocabulary" if is_text else "int64_vocabulary": keys},
    )  # fmt: skip
    value = helper.make_map_type_proto(key, helper.make_tensor_type_proto(dtype, ()))
    graph = helper.make_graph(
        [node], "graph", [helper.make_value_info("x", value)], [helper.make_empty_tensor_value_info("y")]
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return opened(helper.make_model(graph, opset_imports=opsets), folder)


def test_a_dictionary_becomes_a_row_in_the_order_of_its_vocabulary(tmp_path: Path) -> None:
    """The input may be a dict or an array; missing keys give 0."""
    net = _dictionary_net(tmp_path, ["a", "c", "b", "z"])
    assert net.check() == []
    expected = np.float32([[4, 8, 0, 0]])
    for y in (net.run({"c": 8, "a": 4.0}), net.run(x={"a": 4, "c": 8}), net.run({"x": {"a": 4, "c": 8}})):
        np.testing.assert_array_equal(y, expected, strict=True)
    np.testing.assert_array_equal(net.run(expected[0]), expected, strict=True)
    numbered = _dictionary_net(tmp_path, [3, 1, 2], INT64)
    np.testing.assert_array_equal(numbered.run({1: 7}), np.array([[0, 7, 0]]), strict=True)


def test_a_dictionary_is_written_as_a_dictionary(tmp_path: Path) -> None:
    net = _dictionary_net(tmp_path, ["a", "b"])
    net.save(tmp_path / "again.onnx")
    (written,) = onnx.load(tmp_path / "again.onnx").graph.input
    assert written.type.map_type.key_type == TensorProto.STRING
    assert ex.open(tmp_path / "again.onnx").run({"b": 2}).tolist() == [[0, 2]]
    net.save(tmp_path / "net.json")
    assert ex.open(tmp_path / "net.json").run({"b": 2}).tolist() == [[0, 2]]


def test_mismatching_keys_and_dictionaries_raise_an_error(tmp_path: Path) -> None:
    net = _dictionary_net(tmp_path, ["a", "b"])
    with refused(ex.OperandError, "input 'x' has the key 'q'", "among 'a', 'b'"):
        net.run({"a": 1, "q": 2})
    with refused(ex.OperandError, "float32 (2,), or a dict of 'a', 'b'"):
        net.run("a")
    with refused(ex.OperandError, "input 'x' has the key 1"):
        net.run({1: 2})
    with refused(ex.OperandError, "input 'x' is a dictionary", "the array must be"):
        net_of(tmp_path, "Normalizer", norm="MAX").run(x={"a": 1})
    (finding,) = _dictionary_net(tmp_path, ["a", "a"]).check()
    assert "keys must be unique" in finding


def test_invalid_utf8_in_keys_is_replaced(tmp_path: Path) -> None:
    """A hostile file opens, and reports what is missing."""
    net = _dictionary_net(tmp_path, ["a", b"\xff"])
    np.testing.assert_array_equal(net.run({"a": 1}), [[1, 0]])
    (finding,) = _dictionary_net(tmp_path, ["a", b"\xff", b"\xfe"]).check()
    assert "keys must be unique" in finding
