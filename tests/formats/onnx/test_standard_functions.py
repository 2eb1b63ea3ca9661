"""Every ONNX operator type in cases of the standard's own suite; tests/soak runs all of its cases."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from explorer.formats.onnx.operators import TABLE
from tests.formats.onnx.models import FLOAT, model, node, opened
from tests.formats.onnx.standard import DISPUTED, cases, outcome

TESTED_BESIDE = {
    "ConcatFromSequence", "Optional", "SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase",
    "SequenceLength", "SimplifiedLayerNormalization", "MaxRoiPool",
    "ai.onnx.ml.CategoryMapper", "ai.onnx.ml.DictVectorizer", "ai.onnx.ml.FeatureVectorizer", "ai.onnx.ml.Imputer",
    "ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.Normalizer", "ai.onnx.ml.OneHotEncoder",
    "ai.onnx.ml.SVMClassifier", "ai.onnx.ml.SVMRegressor", "ai.onnx.ml.Scaler", "ai.onnx.ml.TreeEnsembleClassifier",
    "ai.onnx.ml.TreeEnsembleRegressor", "ai.onnx.ml.ZipMap",
}  # fmt: skip
"""types without a case of one operator: sequences need several operators (operators/test_sequences.py), one belongs to
ONNX Runtime (operators/microsoft), one pooling is compared with ONNX Runtime (test_onnxruntime.py), and most of
classical machine learning has none (test_scikit_learn.py, and operators/machine_learning)"""
OTHER_DOMAINS = ("com.microsoft.", "own.", "quantized_decomposed.")
"""domains of ONNX Runtime's, users' and torch's types (operators/quantized/test_torch_decomposed.py)"""
LEAST = 980
"""minimum number of correct cases; raise it after improvements"""


@pytest.mark.soak
@pytest.mark.spec("I-9", "C-15")
def test_every_operator_type_has_a_correct_case_and_no_wrong_one(tmp_path: Path) -> None:
    right, wrong = [], []
    for case in cases():
        operators = case.model.graph.node
        type = ".".join(filter(None, (operators[0].domain, operators[0].op_type)))
        if len(operators) > 1 or case.model.functions or type not in TABLE:
            continue
        kind, reason = outcome(case, tmp_path / "m.onnx")
        if kind == "right":
            right.append(type)
        elif kind == "wrong" and case.name not in DISPUTED:
            wrong.append((case.name, reason))
    assert wrong == []
    standard = {type for type in TABLE.types() if not type.startswith(OTHER_DOMAINS)}
    assert standard - set(right) == TESTED_BESIDE
    assert len(right) >= LEAST


def test_a_definition_that_depends_on_types_needs_no_type_annotations(tmp_path: Path) -> None:
    """Quantizers omit the types of intermediate values, because the standard infers them."""
    shape = np.array([1, 2, 3, 4])
    nodes = [
        node("Reshape", ["x", "shape"], ["heads"]),
        node("Mul", ["heads", "two"], ["double"]),
        node("Attention", ["double", "heads", "heads"], ["y"]),
    ]
    constants = {"shape": shape, "two": np.float32(2)}
    net = opened(model(nodes, {"x": (FLOAT, [24])}, ["y"], constants, opset=23), tmp_path)
    assert (net.unknown(), net.check()) == ([], [])
    x = np.random.default_rng(0).normal(size=24).astype(np.float32)
    heads = x.reshape(1, 2, 3, 4).astype(np.float64)
    weights = np.exp(2 * heads @ heads.swapaxes(-1, -2) / 2)
    np.testing.assert_allclose(net.run(x), weights / weights.sum(-1, keepdims=True) @ heads, rtol=1e-5, atol=1e-6)
