"""Support vector machines against values of ONNX Runtime 1.32.0, which are listed here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.float32([[1, 2], [3, 4], [-1, 0.5], [0.2, -1]])
TWO: dict[str, Any] = {
    "classlabels_ints": [3, 7], "vectors_per_class": [1, 1], "support_vectors": [1.0, 0, 0, 1],
    "coefficients": [0.3, -0.2], "rho": [0.05],
}  # fmt: skip
THREE: dict[str, Any] = {
    "classlabels_ints": [3, 7, 9], "vectors_per_class": [1, 1, 1], "support_vectors": [1.0, 0, 0, 1, 1, 1],
    "coefficients": [0.3, -0.2, 0.1, 0.2, -0.1, 0.3], "rho": [0.05, 0.1, -0.1],
}  # fmt: skip
TWO_PROBABLE = {**TWO, "prob_a": [-2.0], "prob_b": [0.1]}
THREE_PROBABLE = {**THREE, "prob_a": [-2.0, -1, -1.5], "prob_b": [0.1, 0.2, 0.3]}
LINEAR = {"classlabels_ints": [3, 7, 9], "coefficients": [0.3, -0.2, 0.1, 0.4, -0.5, 0.2], "rho": [0.05]}


def net_of(folder: Path, type: str, **arguments: Any) -> Net:
    outputs = ["label", "scores"] if type == "SVMClassifier" else ["y"]
    arguments = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], **arguments}
    node = helper.make_node(type, ["x"], outputs, domain="ai.onnx.ml", **arguments)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", FLOAT, [None, 2])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    return opened(helper.make_model(graph, opset_imports=opsets), folder)


@pytest.mark.parametrize(
    ("arguments", "transform", "labels", "scores"),
    [
        (TWO, "NONE", [7, 3, 7, 3], [[0.05, -0.05], [-0.15, 0.15], [0.35, -0.35], [-0.31, 0.31]]),
        (TWO, "LOGISTIC", [7, 3, 7, 3], [[0.5125, 0.4875], [0.4626, 0.5374], [0.5866, 0.4134], [0.4231, 0.5769]]),
        (TWO, "SOFTMAX", [7, 3, 7, 3], [[1.05, -0.05], [0.85, 0.15], [1.35, -0.35], [0.69, 0.31]]),
        (
            TWO_PROBABLE, "NONE", [7, 3, 7, 3],
            [[0.4501, 0.5499], [0.5498, 0.4502], [0.31, 0.69], [0.6258, 0.3742]],
        ),
        (
            THREE, "NONE", [7, 3, 9, 3],
            [[-0.05, 0.6, 0.6], [0.15, 1.4, 1.6], [-0.35, -0.15, -0.3], [0.31, 0.06, -0.24]],
        ),
        (
            THREE_PROBABLE, "NONE", [7, 3, 9, 3],
            [[0.3454, 0.4228, 0.2318], [0.4863, 0.4193, 0.0944], [0.2305, 0.2933, 0.4762], [0.3646, 0.2163, 0.4191]],
        ),
        (
            THREE_PROBABLE, "SOFTMAX", [7, 3, 9, 3],
            [[0.3363, 0.3634, 0.3002], [0.383, 0.3582, 0.2588], [0.2991, 0.3185, 0.3824], [0.3427, 0.2955, 0.3619]],
        ),
        (
            LINEAR, "SOFTMAX", [7, 7, 9, 3],
            [[0.2119, 0.5761, 0.2119], [0.1334, 0.8067, 0.0599], [0.1863, 0.3072, 0.5065], [0.4765, 0.2513, 0.2722]],
        ),
    ],
)  # fmt: skip
def test_a_classifier_votes_and_returns_scores_or_probabilities(
    tmp_path: Path, arguments: dict[str, Any], transform: str, labels: list[int], scores: list[list[float]]
) -> None:
    net = net_of(tmp_path, "SVMClassifier", post_transform=transform, **arguments)
    assert net.check() == []
    label, values = net.run(X).values()
    assert label.tolist() == labels
    assert (values.dtype, label.dtype) == (np.float32, np.int64)
    np.testing.assert_allclose(values, scores, atol=6e-5)


def test_labels_may_be_strings(tmp_path: Path) -> None:
    arguments = {**TWO, "classlabels_strings": ["cat", "elephant"]}
    del arguments["classlabels_ints"]
    assert net_of(tmp_path, "SVMClassifier", **arguments).run(X)["label"].tolist() == [
        "elephant", "cat", "elephant", "cat",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 0.0]}, [0.0170247, 0.0499889, -0.0212224, 0.1555984]),
        ({"kernel_type": "LINEAR"}, [-0.05, 0.15, -0.35, 0.31]),
        ({"n_supports": 0}, [-0.05, 0.15, -0.35, 0.31]),
        ({"one_class": 1}, [-1, 1, -1, 1]),
    ],
)
def test_a_regressor_sums_kernels(tmp_path: Path, arguments: dict[str, Any], expected: list[float]) -> None:
    vectors = {"n_supports": 2, "support_vectors": [1.0, 0, 0, 1], "coefficients": [0.3, -0.2], "rho": [0.05]}
    net = net_of(tmp_path, "SVMRegressor", **{**vectors, **arguments})
    np.testing.assert_allclose(net.run(X)[:, 0], expected, atol=1e-6)
    assert not any("delegated" in label for label in net.plan(X).recording.nodes.label)


@pytest.mark.parametrize(
    ("kernel", "function"), [("POLY", lambda inner: inner**3), ("SIGMOID", np.tanh)], ids=["POLY", "SIGMOID"]
)
def test_other_kernels(tmp_path: Path, kernel: str, function: Any) -> None:
    net = net_of(
        tmp_path, "SVMRegressor", kernel_type=kernel, kernel_params=[0.5, 0.1, 3.0], n_supports=1,
        support_vectors=[1.0, 2.0], coefficients=[1.0], rho=[0.0],
    )  # fmt: skip
    np.testing.assert_allclose(net.run(X)[:, 0], function(0.5 * (X @ [1, 2]) + 0.1), rtol=1e-5)


def test_consistent_pairwise_probabilities_are_recovered(tmp_path: Path) -> None:
    """If each pair has the ratio of its classes' probabilities, the results are these probabilities."""
    from explorer.formats.onnx.operators.machine_learning.support_vectors import CoupledProbabilities

    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    pairs = np.stack([p[:, i] / (p[:, i] + p[:, j]) for i, j in ((0, 1), (0, 2), (1, 2))], 1)
    np.testing.assert_allclose(ex.evaluate(CoupledProbabilities(3)(pairs)), p, atol=0.005)


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"vectors_per_class": [1]}, "a number of support vectors for each"),
        ({"support_vectors": [1.0]}, "support_vectors must have 2 × 2"),
        ({"coefficients": [1.0]}, "coefficients must have 1 × 2"),
        ({"rho": [1.0, 2.0]}, "rho must have 1 × 1"),
        ({"kernel_type": "OTHER"}, "kernel_type must be LINEAR or POLY"),
        ({"kernel_type": "RBF", "kernel_params": [1.0]}, "kernel_params must be gamma"),
    ],
)
def test_a_mismatching_machine_raises_an_error(tmp_path: Path, changed: dict[str, Any], rule: str) -> None:
    (finding,) = net_of(tmp_path, "SVMClassifier", **{**TWO, **changed}).check()
    assert rule in finding


def test_a_support_vector_machine_sums_products_with_its_vectors(tmp_path: Path) -> None:
    y = net_of(
        tmp_path, "SVMRegressor", kernel_type="LINEAR", kernel_params=[0.0, 0.0, 0.0], n_supports=2,
        support_vectors=[1.0, 2.0, 0.0, 1.0], coefficients=[2.0, -1.0], rho=[0.5], post_transform="NONE",
    ).run(X)  # fmt: skip
    np.testing.assert_allclose(y[:, 0], X @ np.float32([2, 3]) + 0.5, rtol=1e-6)
