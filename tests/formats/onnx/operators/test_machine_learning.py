"""Operators of the domain ai.onnx.ml, each on numbers that one can check by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

from explorer.net import Net
from tests.formats.onnx.models import FLOAT, INT64, model, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.array([[1, 2], [3, 4], [-1, 0.5]], np.float32)
STUMP = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [2.0, 0.0, 0.0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "nodes_hitrates": [1.0, 1.0, 1.0],
    "nodes_missing_value_tracks_true": [0, 0, 0],
}
"""a tree of one question: is the first feature at most 2?"""


def net_of(
    folder: Path, type: str, outputs: tuple[str, ...] = ("y",), *, checked: bool = True, **arguments: Any
) -> Net:
    node = helper.make_node(type, ["x"], list(outputs), domain="ai.onnx.ml", **arguments)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, X.shape)],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    net = opened(helper.make_model(graph, opset_imports=opsets), folder)
    assert net.check() == [] or not checked
    return net


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


def test_a_linear_regressor_has_a_row_of_coefficients_for_each_target(tmp_path: Path) -> None:
    net = net_of(tmp_path, "LinearRegressor", coefficients=[1.0, 2.0, 0.0, -1.0], intercepts=[0.5, 0.0], targets=2)
    np.testing.assert_allclose(net.run(X), X @ np.float32([[1, 0], [2, -1]]) + np.float32([0.5, 0]), rtol=1e-6)


def test_a_linear_classifier_gives_labels_and_scores(tmp_path: Path) -> None:
    net = net_of(
        tmp_path,
        "LinearClassifier",
        ("label", "score"),
        coefficients=[1.0, 2.0, -1.0, 1.0],
        intercepts=[0.5, 0.0],
        classlabels_ints=[3, 7],
        post_transform="NONE",
        multi_class=0,
    )
    label, score = net.run(X).values()
    expected = X @ np.float32([[1, -1], [2, 1]]) + np.float32([0.5, 0])
    np.testing.assert_allclose(score, expected, rtol=1e-6)
    np.testing.assert_array_equal(label, np.array([3, 7])[expected.argmax(1)])


def test_attributes_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for type, arguments, rule in (
        ("Scaler", {"offset": ["a", "b"], "scale": [1.0]}, "offset must be a list of numbers"),
        ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [1.0]}, "one number, or one a feature"),
        ("LinearRegressor", {"coefficients": [1.0, 2.0, 3.0], "targets": 2}, "a coefficient a feature"),
    ):
        (finding,) = net_of(tmp_path, type, checked=False, **arguments).check()
        assert rule in finding


@pytest.mark.parametrize("shape", [[], [2, 3, 2]])
def test_a_linear_classifier_takes_rows_alone(tmp_path: Path, shape: list[int]) -> None:
    node = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "score"],
        domain="ai.onnx.ml",
        coefficients=[1.0, 2.0],
        classlabels_ints=[3, 7],
    )
    file = model([node], {"x": (FLOAT, shape)}, ["label", "score"])
    file.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    assert any("rows must be numbers of shape (n, features)" in finding for finding in opened(file, tmp_path).check())


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


@pytest.mark.parametrize(
    ("transform", "scores"),
    [
        ("NONE", [[1.0, 0.0], [0.8, 0.2], [1.3, -0.3]]),
        ("LOGISTIC", [[0.5, 0.5], [0.4502, 0.5498], [0.5744, 0.4256]]),
        ("SOFTMAX", [[1.0, 0.0], [0.8, 0.2], [1.3, -0.3]]),
    ],
)
def test_one_row_of_coefficients_is_for_two_classes(tmp_path: Path, transform: str, scores: list[list[float]]) -> None:
    """ONNX Runtime's values."""
    net = net_of(
        tmp_path, "LinearClassifier", ("label", "score"), classlabels_ints=[3, 7], coefficients=[0.3, -0.2],
        intercepts=[0.1], post_transform=transform,
    )  # fmt: skip
    label, score = net.run(X).values()
    assert label.tolist()[1:] == [7, 3]
    np.testing.assert_allclose(score, scores, atol=6e-5)


@pytest.mark.parametrize(
    ("transform", "scores"),
    [
        ("LOGISTIC", [[0.5, 0.7503], [0.5498, 0.8909]]),
        ("SOFTMAX", [[0.2497, 0.7503], [0.1301, 0.8699]]),
    ],
)
def test_scores_are_transformed(tmp_path: Path, transform: str, scores: list[list[float]]) -> None:
    """ONNX Runtime's values."""
    net = net_of(
        tmp_path, "LinearClassifier", ("label", "score"), classlabels_ints=[3, 7], post_transform=transform,
        coefficients=[0.3, -0.2, 0.1, 0.4], intercepts=[0.1, 0.2],
    )  # fmt: skip
    np.testing.assert_allclose(net.run(X)["score"][:2], scores, atol=6e-5)


def test_quantiles_are_those_of_onnx_runtime(tmp_path: Path) -> None:
    """√2 · erf⁻¹(2 p − 1) by its approximation, for p of 0.2, 0.36 and 0.7."""
    net = net_of(tmp_path, "LinearRegressor", coefficients=[0.1, 0.0], intercepts=[0.0], post_transform="PROBIT")
    y = net.run(np.float32([[2, 0], [3.6, 0], [7, 0]]))
    np.testing.assert_allclose(y[:, 0], [-0.8418, -0.3585, 0.5244], atol=6e-5)


def test_features_are_taken_in_any_order(tmp_path: Path) -> None:
    net = net_of_two(tmp_path, "ArrayFeatureExtractor", X, np.array([[1, 0, 1]]))
    np.testing.assert_array_equal(net.run(X), X[:, [1, 0, 1]])


def net_of_two(folder: Path, type: str, x: Any, y: Any) -> Net:
    made = model(
        [helper.make_node(type, ["x", "y"], ["z"], domain="ai.onnx.ml")], {"x": (FLOAT, x.shape)}, ["z"], {"y": y}
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    return opened(made, folder)


def test_an_encoder_gives_each_category_a_place_and_others_zeros(tmp_path: Path) -> None:
    y = net_of(tmp_path, "OneHotEncoder", cats_int64s=[1, 3], zeros=1, checked=False).run(X)
    np.testing.assert_array_equal(y, (X[..., None] == [1, 3]).astype(np.float32))


def test_a_support_vector_machine_sums_products_with_its_vectors(tmp_path: Path) -> None:
    y = net_of(
        tmp_path, "SVMRegressor", kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], n_supports=2,
        support_vectors=[1.0, 2.0, 0.0, 1.0], coefficients=[2.0, -1.0], rho=[0.5], post_transform="NONE",
    ).run(X)  # fmt: skip
    np.testing.assert_allclose(y[:, 0], X @ np.float32([2, 3]) + 0.5, rtol=1e-6)
