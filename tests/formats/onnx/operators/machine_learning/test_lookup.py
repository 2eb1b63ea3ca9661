"""Encoders of labels and categories: numbers and strings looked up among keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

WORDS = np.array([["cat", "dog"], ["newt", "cat"]])


def net_of(folder: Path, type: str, x: Any, opset: int = 4, **arguments: Any) -> Net:
    element = TensorProto.STRING if x.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(type, ["x"], ["y"], domain="ai.onnx.ml", **arguments)],
        "graph",
        [helper.make_tensor_value_info("x", element, [None] * x.ndim)],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", opset)]
    return opened(helper.make_model(graph, opset_imports=opsets), folder)


@pytest.mark.parametrize(
    ("x", "arguments", "expected"),
    [
        (WORDS, {"keys_strings": ["dog", "cat"], "values_int64s": [5, 6]}, [[6, 5], [-1, 6]]),
        (WORDS, {"keys_strings": ["dog"], "values_strings": ["hound"]}, [["_Unused", "hound"], ["_Unused", "_Unused"]]),
        (np.array([3, 4]), {"keys_int64s": [4, 3, 4], "values_floats": [1.0, 2.0, 9.0]}, [2, 1]),
        (np.float32([np.nan, 3, 7]), {"keys_floats": [np.nan, 3.0], "values_int64s": [7, 8]}, [7, 8, -1]),
        (np.array([1, 2]), {"keys_int64s": [1], "values_strings": ["a"], "default_string": "longer"}, ["a", "longer"]),
        (
            np.array([1, 2]),
            {
                "keys_tensor": helper.make_tensor("k", TensorProto.INT64, [2], [1, 3]),
                "values_tensor": helper.make_tensor("v", TensorProto.DOUBLE, [2], [0.5, 0.25]),
                "default_tensor": helper.make_tensor("d", TensorProto.DOUBLE, [1], [-1.0]),
            },
            [0.5, -1],
        ),
    ],
)
def test_an_encoder_returns_the_value_of_a_key(
    tmp_path: Path, x: Any, arguments: dict[str, Any], expected: Any
) -> None:
    net = net_of(tmp_path, "LabelEncoder", x, **arguments)
    assert net.check() == []
    assert net.run(x).tolist() == expected


def test_strings_are_encoded_by_their_index_in_a_list(tmp_path: Path) -> None:
    numbers = net_of(tmp_path, "LabelEncoder", WORDS, 1, classes_strings=["newt", "cat"]).run(WORDS)
    assert numbers.tolist() == [[1, -1], [0, 1]]
    texts = net_of(tmp_path, "LabelEncoder", numbers, 1, classes_strings=["newt", "cat"]).run(numbers)
    assert texts.tolist() == [["cat", "_Unused"], ["newt", "cat"]]
    mapped = net_of(tmp_path, "CategoryMapper", WORDS, 1, cats_strings=["newt", "cat"], cats_int64s=[8, 9])
    assert mapped.run(WORDS).tolist() == [[9, -1], [8, 9]]


@pytest.mark.parametrize("x", [np.array([[1, 2], [3, 9]]), np.float32([[1, 2], [3, 9]])])
def test_a_category_is_one_hot_encoded(tmp_path: Path, x: Any) -> None:
    y = net_of(tmp_path, "OneHotEncoder", x, cats_int64s=[3, 1], zeros=1).run(x)
    assert y.tolist() == [[[0, 1], [0, 0]], [[1, 0], [0, 0]]]


def test_an_unknown_category_raises_an_error_if_zeros_are_not_allowed(tmp_path: Path) -> None:
    words = np.array(["dog", "cat"])
    net = net_of(tmp_path, "OneHotEncoder", words, cats_strings=["dog", "cat"], zeros=0)
    assert net.run(words).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ex.RunError, match="'newt' is not among 2 categories"):
        net.run(["dog", "newt"])


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"keys_strings": ["a"], "values_int64s": [1, 2]}, "each key must have a value"),
        ({"keys_strings": ["a"], "keys_int64s": [1], "values_int64s": [1]}, "every part in a file must be supported"),
        ({"keys_strings": ["a"]}, "there must be values_int64s, _floats, _strings or _tensor"),
        ({"keys_int64s": [1], "values_int64s": [1]}, "lookup must have only strings, or only numbers"),
    ],
)
def test_mismatching_tables_raise_an_error(tmp_path: Path, arguments: dict[str, Any], rule: str) -> None:
    (finding,) = net_of(tmp_path, "LabelEncoder", WORDS, **arguments).check()
    assert rule in finding


def test_one_hot_encoding_of_known_and_unknown_categories(tmp_path: Path) -> None:
    x = np.float32([[1, 2], [3, 4], [-1, 0.5]])
    y = net_of(tmp_path, "OneHotEncoder", x, cats_int64s=[1, 3], zeros=1).run(x)
    np.testing.assert_array_equal(y, (x[..., None] == [1, 3]).astype(np.float32))
