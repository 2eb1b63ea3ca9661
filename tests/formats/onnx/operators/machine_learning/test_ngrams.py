"""Counts of a vocabulary's n-grams in rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from explorer.net import Net
from tests.formats.onnx.models import opened

pytestmark = pytest.mark.spec("I-5", "I-6", "I-9")

POOL: dict[str, Any] = {
    "mode": "TF", "min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 0, "ngram_counts": [0, 3, 7],
    "ngram_indexes": [4, 0, 2, 1, 3, 5], "pool_int64s": [1, 2, 3, 1, 2, 2, 2, 1, 2, 3],
}  # fmt: skip
"""1, 2 and 3; 1 2 and 2 2; 1 2 3"""


def net_of(folder: Path, x: Any, **arguments: Any) -> Net:
    element = TensorProto.STRING if x.dtype.kind == "U" else helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("TfIdfVectorizer", ["x"], ["y"], **arguments)],
        "graph",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_empty_tensor_value_info("y")],
    )
    return opened(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), folder)


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most"), [(1, 1), (1, 3), (2, 2), (2, 3), (3, 3)])
@pytest.mark.parametrize("skips", [0, 2])
def test_counts_equal_those_of_the_reference_evaluator(
    tmp_path: Path, mode: str, least: int, most: int, skips: int
) -> None:
    x = np.random.default_rng(0).integers(0, 4, (20, 9))
    lengths = {"min_gram_length": least, "max_gram_length": most, "max_skip_count": skips}
    arguments = {**POOL, "ngram_counts": [0, 3, 7], "mode": mode, **lengths, "weights": [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]}
    net = net_of(tmp_path, x, **arguments)
    (expected,) = ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": x})
    assert net.check() == []
    if mode == "TF":
        np.testing.assert_array_equal(net.run(x), expected)
        assert net_of(tmp_path, x[0], **arguments).run(x[0]).tolist() == expected[0].tolist()
    else:
        # the evaluator indexes weights by the position in the vocabulary, the standard by the n-gram
        counts = net_of(tmp_path, x, **{**arguments, "mode": "TF"}).run(x)
        weights = np.zeros(6, np.float32)
        weights[POOL["ngram_indexes"]] = arguments["weights"]
        np.testing.assert_array_equal(net.run(x), (counts if mode == "TFIDF" else counts > 0) * weights)


def test_strings_outside_the_vocabulary_are_not_counted(tmp_path: Path) -> None:
    x = np.array([["the", "cat", "sat"], ["the", "dog", "#"]])
    texts = {"ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2], "pool_strings": ["cat", "the", "the", "dog"]}
    arguments = {**POOL, "max_gram_length": 2, **texts}
    del arguments["pool_int64s"]
    assert net_of(tmp_path, x, **arguments).run(x).tolist() == [[1, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (0,)])
def test_rows_without_tokens_have_no_ngrams(tmp_path: Path, shape: tuple[int, ...]) -> None:
    counts = net_of(tmp_path, np.zeros(shape, np.int64), **POOL).run(np.zeros(shape, np.int64))
    assert counts.shape == (*shape[:-1], 6)
    assert not counts.any()


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"ngram_counts": [0, 3, 8]}, "each n-gram must be complete"),
        ({"ngram_counts": [0, 30, 7]}, "ngram_counts must be indices into the pool"),
        ({"ngram_indexes": [0]}, "each n-gram must have an index"),
        ({"ngram_indexes": [-1] * 6}, "each must have a column"),
        ({"min_gram_length": 0}, "n-grams must have at least one token"),
        ({"mode": "IDF", "weights": [1.0]}, "each n-gram must have a weight"),
    ],
)
def test_a_mismatching_vocabulary_raises_an_error(tmp_path: Path, changed: dict[str, Any], rule: str) -> None:
    (finding,) = net_of(tmp_path, np.ones((2, 3), np.int64), **{**POOL, **changed}).check()
    assert rule in finding
