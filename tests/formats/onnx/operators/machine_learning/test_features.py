"""Operators of ai.onnx.ml on features, each on numbers that one can check by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.net import Net
from tests.formats.onnx.models import FLOAT, INT64, model, opened
from tests.formats.onnx.operators.machine_learning.one_operator import X, net_of

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")


def test_a_scaler_takes_an_offset_and_a_factor_of_each_feature(tmp_path: Path) -> None:
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


def test_attributes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for type, arguments, rule in (
        ("Scaler", {"offset": ["a", "b"], "scale": [1.0]}, "offset must be a list of numbers"),
        ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [1.0]}, "one number, or one a feature"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "a coefficient a feature"),
    ):
        (finding,) = net_of(tmp_path, type, checked=False, **arguments).check()
        assert rule in finding


def test_an_imputer_replaces_one_number_by_another_of_each_feature(tmp_path: Path) -> None:
    y = net_of(tmp_path, "Imputer", imputed_value_floats=[9.0, 8.0], replaced_value_float=2.0).run(X)
    np.testing.assert_array_equal(y, np.float32([[1, 8], [3, 4], [-1, 0.5]]))


def test_an_imputer_of_whole_numbers_keeps_all_their_digits(tmp_path: Path) -> None:
    node = helper.make_node(
        "Imputer", ["x"], ["y"], domain="ai.onnx.ml", imputed_value_int64s=[2**53 + 1], replaced_value_int64=-1
    )
    file = model([node], {"x": (INT64, [2])}, ["y"])
    file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    assert opened(file, tmp_path).run(np.array([-1, 5])).tolist() == [2**53 + 1, 5]


def test_columns_are_put_beside_one_another(tmp_path: Path) -> None:
    node = helper.make_node("FeatureVectorizer", ["x", "n"], ["y"], domain="ai.onnx.ml", inputdimensions=[2, 1])
    inputs = {"x": (FLOAT, [3, 2]), "n": (INT64, [3, 1])}
    made = model([node], inputs, ["y"])
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    net = opened(made, tmp_path)
    assert net.check() == []
    y = net.run(X, np.array([[7], [8], [9]]))
    np.testing.assert_array_equal(y, np.float32([[1, 2, 7], [3, 4, 8], [-1, 0.5, 9]]))


def test_features_are_taken_in_any_order(tmp_path: Path) -> None:
    net = net_of_two(tmp_path, "ArrayFeatureExtractor", X, np.array([[1, 0, 1]]))
    np.testing.assert_array_equal(net.run(X), X[:, [1, 0, 1]])


def net_of_two(folder: Path, type: str, x: Any, y: Any) -> Net:
    made = model(
        [helper.make_node(type, ["x", "y"], ["z"], domain="ai.onnx.ml")], {"x": (FLOAT, x.shape)}, ["z"], {"y": y}
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return opened(made, folder)
