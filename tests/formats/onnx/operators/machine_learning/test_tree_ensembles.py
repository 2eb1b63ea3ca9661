"""Tree ensembles: by hand, against the onnx package's evaluator, and ONNX Runtime's rules for two classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import explorer as ex
from explorer.core.errors import OperandError
from explorer.formats.onnx.operators.machine_learning.decision_trees import DecisionTrees
from explorer.net import Net
from tests.formats.onnx.models import opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

X = np.float32([[1, 2], [3, 4], [-1, 0.5], [np.nan, 1]])
STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
    "nodes_values": [2.0, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "nodes_missing_value_tracks_true": [0, 0, 0],
}  # fmt: skip
"""a tree with one comparison: is the first feature at most 2?"""
STUMPS = {name: [0, 0, 0, 1, 1, 1] if name == "nodes_treeids" else 2 * value for name, value in STUMP.items()}
TARGETS: dict[str, Any] = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0]}
CLASSES: dict[str, Any] = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "classlabels_int64s": [3, 7]}


def net_of(folder: Path, type: str, x: Any = X, *, opset: int = 3, **arguments: Any) -> Net:
    outputs = ["label", "scores"] if type.endswith("Classifier") else ["y"]
    node = helper.make_node(type, ["x"], outputs, domain="ai.onnx.ml", **arguments)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info("x", element, [None, x.shape[1]])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", opset)]
    return opened(helper.make_model(graph, opset_imports=opsets), folder)


def test_an_ensemble_is_written_in_an_opset_that_contains_it(tmp_path: Path) -> None:
    """The domain's newest opset removed these types, and ONNX Runtime rejects a file that declares it."""
    net = net_of(tmp_path, "TreeEnsembleRegressor", **STUMP, **TARGETS, target_weights=[1.5, -0.5])
    net.save(tmp_path / "again.onnx")
    onnx.checker.check_model(tmp_path / "again.onnx", full_check=True)
    np.testing.assert_array_equal(ex.open(tmp_path / "again.onnx").run(X), net.run(X))


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("SUM", [4.5, -1.5]), ("AVERAGE", [2.5, -0.5]), ("MIN", [1.5, -3.5]), ("MAX", [3.5, 2.5])],
)
def test_weights_of_trees_are_aggregated(tmp_path: Path, aggregate: str, expected: list[float]) -> None:
    net = net_of(
        tmp_path, "TreeEnsembleRegressor", n_targets=1, aggregate_function=aggregate, base_values=[0.5],
        target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0] * 4,
        target_weights=[1.0, 2.0, 3.0, -4.0], **STUMPS,
    )  # fmt: skip
    assert net.check() == []
    at_most, above = expected
    np.testing.assert_array_equal(net.run(X), np.float32([[at_most], [above], [at_most], [above]]))


@pytest.mark.parametrize(
    ("aggregate", "expected"), [("SUM", [[4, 0], [-4, 2]]), ("MIN", [[1, 0], [-4, 2]]), ("MAX", [[3, 0], [-4, 2]])]
)
def test_a_target_without_a_weight_is_zero(tmp_path: Path, aggregate: str, expected: list[list[float]]) -> None:
    net = net_of(
        tmp_path, "TreeEnsembleRegressor", n_targets=2, aggregate_function=aggregate,
        target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2], target_ids=[0, 1, 0, 0],
        target_weights=[1.0, 2.0, 3.0, -4.0], **STUMPS,
    )  # fmt: skip
    np.testing.assert_array_equal(net.run(X[:2]), np.float32(expected))


@pytest.mark.parametrize(
    ("column", "weights", "transform", "labels", "scores"),
    [
        (0, [0.3, 0.7], "NONE", [3, 7], [[0.7, 0.3], [0.3, 0.7]]),
        (0, [0.3, 0.7], "LOGISTIC", [3, 7], [[0.4256, 0.5744], [0.3318, 0.6682]]),
        (0, [0.3, 0.7], "SOFTMAX", [3, 7], [[0.7, 0.3], [0.3, 0.7]]),
        (0, [-0.3, 0.7], "NONE", [3, 7], [[0.3, -0.3], [-0.7, 0.7]]),
        (0, [-0.3, 0.7], "LOGISTIC", [3, 7], [[0.5744, 0.4256], [0.3318, 0.6682]]),
        (0, [-0.3, 0.7], "SOFTMAX_ZERO", [3, 7], [[0.3, -0.3], [-0.7, 0.7]]),
        (1, [0.3, 0.7], "NONE", [3, 7], [[0, 0.3], [0, 0.7]]),
        (1, [0.3, 0.7], "SOFTMAX", [3, 7], [[0.4256, 0.5744], [0.3318, 0.6682]]),
        (1, [0.3, 0.7], "SOFTMAX_ZERO", [3, 7], [[0, 1], [0, 1]]),
    ],
)
def test_two_classes_with_one_column(
    tmp_path: Path, column: int, weights: list[float], transform: str, labels: list[int], scores: list[list[float]]
) -> None:
    """Values are ONNX Runtime's: weights of one class are probabilities if none is negative, and otherwise margins."""
    net = net_of(
        tmp_path, "TreeEnsembleClassifier", class_ids=[column] * 2, class_weights=weights, post_transform=transform,
        **CLASSES, **STUMP,
    )  # fmt: skip
    label, values = net.run(X[:2]).values()
    assert label.tolist() == labels
    np.testing.assert_allclose(values, scores, atol=5e-5)


def test_base_values_and_string_labels(tmp_path: Path) -> None:
    arguments = {**CLASSES, "classlabels_strings": ["no", "perhaps"]}
    del arguments["classlabels_int64s"]
    net = net_of(
        tmp_path, "TreeEnsembleClassifier", class_ids=[0, 0], class_weights=[0.3, 0.7], base_values=[0.25],
        post_transform="NONE", **arguments, **STUMP,
    )  # fmt: skip
    label, scores = net.run(X[:2]).values()
    assert label.tolist() == ["perhaps", "perhaps"]
    np.testing.assert_allclose(scores, [[0.45, 0.55], [0.05, 0.95]], rtol=1e-6)


def forest(random: np.random.Generator, trees: int, depth: int, targets: int) -> dict[str, Any]:
    """Return random trees with all comparisons, whose leaves have weights for several targets."""
    modes = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
    rows: list[tuple[int, int, str, int, int]] = []
    leaves: list[tuple[int, int]] = []
    for tree in range(trees):
        free, level = 1, [0]
        for _ in range(depth):
            below = []
            for number in level:
                if number and random.random() < 0.3:
                    rows.append((tree, number, "LEAF", 0, 0))
                    leaves.append((tree, number))
                    continue
                rows.append((tree, number, str(random.choice(modes)), free, free + 1))
                below += [free, free + 1]
                free += 2
            level = below
        rows += [(tree, number, "LEAF", 0, 0) for number in level]
        leaves += [(tree, number) for number in level]
    count = len(rows)
    weights = [(tree, number, target) for tree, number in leaves for target in range(targets)]
    return {
        "nodes_treeids": [row[0] for row in rows], "nodes_nodeids": [row[1] for row in rows],
        "nodes_modes": [row[2] for row in rows], "nodes_truenodeids": [row[3] for row in rows],
        "nodes_falsenodeids": [row[4] for row in rows],
        "nodes_featureids": random.integers(0, 3, count).tolist(),
        "nodes_values": random.integers(-2, 3, count).astype(float).tolist(),
        "nodes_missing_value_tracks_true": random.integers(0, 2, count).tolist(),
        "target_treeids": [row[0] for row in weights], "target_nodeids": [row[1] for row in weights],
        "target_ids": [row[2] for row in weights], "target_weights": random.normal(size=len(weights)).tolist(),
        "n_targets": targets,
    }  # fmt: skip


@pytest.mark.parametrize("targets", [1, 3])
def test_every_comparison_equals_the_reference_evaluators(tmp_path: Path, targets: int) -> None:
    """Random trees of uneven depth get features at the thresholds and missing ones."""
    random = np.random.default_rng(targets)
    x = random.integers(-2, 3, (300, 3)).astype(np.float32)
    x[random.random(x.shape) < 0.1] = np.nan
    arguments = forest(random, 7, 9, targets)
    net = net_of(tmp_path, "TreeEnsembleRegressor", x, **arguments)
    (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": x})
    np.testing.assert_allclose(net.run(x), expected, rtol=1e-5, atol=1e-6)
    assert "decision_trees" in net.plan(x).recording.nodes.label
    assert not any("delegated" in label for label in net.plan(x).recording.nodes.label)


def test_boosted_trees_store_one_weight_per_node(tmp_path: Path) -> None:
    """One tree for the first class and one for the last do not store a weight for each class."""
    net = net_of(
        tmp_path, "TreeEnsembleRegressor", n_targets=50, target_treeids=[0, 0, 1, 1], target_nodeids=[1, 2, 1, 2],
        target_ids=[0, 0, 49, 49], target_weights=[1.0, 2.0, 3.0, 4.0], **STUMPS,
    )  # fmt: skip
    y = net.run(X[:2])
    assert y[:, [0, 49]].tolist() == [[1, 3], [2, 4]]
    assert np.count_nonzero(y) == 4
    (node,) = [node for node in net.build((2, 2)).operands if node.operation.name == "decision_trees"] or [
        net.build((2, 2))
    ]
    assert node.operands[5].shape == (6, 1)


def test_trees_of_float64_compare_in_float64(tmp_path: Path) -> None:
    x = np.array([[1.0], [1 + 1e-12]])
    arguments = {**STUMP, "nodes_values_as_tensor": helper.make_tensor("v", TensorProto.DOUBLE, [3], [1.0, 0, 0])}
    del arguments["nodes_values"]
    weights = helper.make_tensor("w", TensorProto.DOUBLE, [2], [1.0, 2.0])
    net = net_of(tmp_path, "TreeEnsembleRegressor", x, target_weights_as_tensor=weights, **TARGETS, **arguments)
    np.testing.assert_array_equal(net.run(x), [[1], [2]])


def test_a_set_membership_becomes_a_chain_of_comparisons(tmp_path: Path) -> None:
    """Opset 5: is the first feature 1, 5 or 7? If not, is the second at most 2?"""
    net = net_of(
        tmp_path, "TreeEnsemble", opset=5, n_targets=1, tree_roots=[0],
        nodes_modes=helper.make_tensor("m", TensorProto.UINT8, [2], [6, 0]), nodes_featureids=[0, 1],
        nodes_splits=helper.make_tensor("s", TensorProto.FLOAT, [2], [0.0, 2.0]),
        nodes_truenodeids=[0, 1], nodes_trueleafs=[1, 1], nodes_falsenodeids=[1, 2], nodes_falseleafs=[0, 1],
        leaf_targetids=[0, 0, 0], leaf_weights=helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0]),
        membership_values=helper.make_tensor("v", TensorProto.FLOAT, [4], [1.0, 5.0, 7.0, np.nan]),
    )  # fmt: skip
    x = np.float32([[1, 9], [5, 9], [7, 9], [2, 1], [6, 3], [np.nan, 1]])
    assert net.run(x)[:, 0].tolist() == [1, 1, 1, 2, 3, 2]


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"nodes_truenodeids": [0, 0, 0]}, "nodes must not form a cycle"),
        ({"nodes_truenodeids": [9, 0, 0]}, "nodes_truenodeids must be nodes of the tree"),
        ({"nodes_featureids": [2, 0, 0]}, "nodes_featureids must be in 0 … 1"),
        ({"nodes_modes": ["BRANCH_MAYBE", "LEAF", "LEAF"]}, "nodes_modes must be known comparisons"),
        ({"nodes_values": [1.0]}, "nodes_values must have 3 numbers"),
        ({"nodes_values": ["a", "b", "c"]}, "nodes_values must be a number or a list of numbers"),
        ({"target_ids": [0, 1]}, "weights must be for targets in 0 … 0"),
        ({"target_nodeids": [1, 5]}, "nodes of weights must be nodes of the tree"),
        ({"target_weights": [1.0]}, "each weight must have a tree, a node and a target"),
        ({"target_treeids": [0]}, "each weight must have a tree, a node and a target"),
        ({"nodes_nodeids": [0, 1]}, "nodes_nodeids must have 3 numbers"),
    ],
)
def test_mismatching_trees_raise_an_error(tmp_path: Path, changed: dict[str, Any], rule: str) -> None:
    arguments = {"n_targets": 1, "target_weights": [1.0, 2.0], **TARGETS, **STUMP, **changed}
    (finding,) = net_of(tmp_path, "TreeEnsembleRegressor", **arguments).check()
    assert rule in finding


def test_trees_have_no_gradient(tmp_path: Path) -> None:
    net = net_of(tmp_path, "TreeEnsembleRegressor", n_targets=1, target_weights=[1.0, 2.0], **TARGETS, **STUMP)
    x = ex.tensor(np.ones((20, 2), np.float32))
    with pytest.raises(ex.OperandError, match="a decision is a step"):
        ex.grad(net.build(x).sum(), [x])


@pytest.mark.parametrize("table", [1, 3, 4, 6, 7])
def test_index_tables_are_integers(table: int) -> None:
    operands = list(DecisionTrees.examples[0].draw())
    operands[table] = operands[table].astype(np.float16)
    with pytest.raises(OperandError, match="columns must be integers"):
        DecisionTrees(3, 3)(*map(ex.tensor, operands))
