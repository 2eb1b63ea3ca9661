"""Linear models of ai.onnx.ml, with numbers that are easy to check by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.formats.onnx.models import FLOAT, model, opened
from tests.formats.onnx.operators.machine_learning.one_operator import X, net_of

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")


def test_a_linear_regressor_has_a_row_of_coefficients_for_each_target(tmp_path: Path) -> None:
    net = net_of(tmp_path, "LinearRegressor", coefficients=[1.0, 2.0, 0.0, -1.0], intercepts=[0.5, 0.0], targets=2)
    np.testing.assert_allclose(net.run(X), X @ np.float32([[1, 0], [2, -1]]) + np.float32([0.5, 0]), rtol=1e-6)


def test_a_linear_classifier_returns_labels_and_scores(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("shape", [[], [2, 3, 2]])
def test_a_linear_classifier_accepts_only_rows(tmp_path: Path, shape: list[int]) -> None:
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


@pytest.mark.parametrize(
    ("transform", "scores"),
    [
        ("NONE", [[1.0, 0.0], [0.8, 0.2], [1.3, -0.3]]),
        ("LOGISTIC", [[0.5, 0.5], [0.4502, 0.5498], [0.5744, 0.4256]]),
        ("SOFTMAX", [[1.0, 0.0], [0.8, 0.2], [1.3, -0.3]]),
    ],
)
def test_one_row_of_coefficients_means_two_classes(tmp_path: Path, transform: str, scores: list[list[float]]) -> None:
    """Values are ONNX Runtime's."""
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
    """Values are ONNX Runtime's."""
    net = net_of(
        tmp_path, "LinearClassifier", ("label", "score"), classlabels_ints=[3, 7], post_transform=transform,
        coefficients=[0.3, -0.2, 0.1, 0.4], intercepts=[0.1, 0.2],
    )  # fmt: skip
    np.testing.assert_allclose(net.run(X)["score"][:2], scores, atol=6e-5)


def test_quantiles_equal_those_of_onnx_runtime(tmp_path: Path) -> None:
    """√2 · erf⁻¹(2 p − 1) is approximated, for p of 0.2, 0.36 and 0.7."""
    net = net_of(tmp_path, "LinearRegressor", coefficients=[0.1, 0.0], intercepts=[0.0], post_transform="PROBIT")
    y = net.run(np.float32([[2, 0], [3.6, 0], [7, 0]]))
    np.testing.assert_allclose(y[:, 0], [-0.8418, -0.3585, 0.5244], atol=6e-5)
