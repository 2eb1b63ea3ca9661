"""Operators of com.microsoft against results of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.onnx.models import opened
from tests.formats.onnx.operators.onnxruntime_references import KEPT, cases
from tests.support.refusals import refused

CASES = cases()
REFERENCES = np.load(KEPT)


@pytest.mark.parametrize("name", CASES)
def test_the_result_equals_onnx_runtimes(tmp_path: Path, name: str) -> None:
    """Real numbers are equal up to a few float32 ulps, quantized ones and dtypes exactly."""
    case = CASES[name]
    net = opened(case.model(), tmp_path)
    assert net.check() == []
    results = net.run(case.arrays)
    for place, result in enumerate(results.values() if case.outputs > 1 else [results]):
        expected = REFERENCES[f"{name}: {place}"]
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-5)
        else:
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["across", "across with a bias", "within, causal", "behind a past, masked"])
def test_packed_operands_of_attention_give_the_result_of_separate_ones(tmp_path: Path, name: str) -> None:
    """Keys and values, or all three operands, may be packed by heads."""
    case = CASES[name]
    n, steps, features = case.inputs[1].shape
    count, places = case.attributes["num_heads"], [1, 2] if name.startswith("across") else [0, 1, 2]
    parts = [case.inputs[place].reshape(n, steps, count, features // count) for place in places]
    inputs = [*case.inputs]
    inputs[places[0] : 3] = [np.stack(parts, 3), *[None] * (len(places) - 1)]
    case = case._replace(inputs=inputs)
    results = opened(case.model(), tmp_path).run(case.arrays)
    for place, result in enumerate(results.values() if case.outputs > 1 else [results]):
        np.testing.assert_allclose(result, REFERENCES[f"{name}: {place}"], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("length", [12, -1])
def test_a_step_beyond_a_full_buffer_raises_an_error_at_run_time(tmp_path: Path, length: int) -> None:
    case = CASES["a buffer"]
    net = opened(case.model(), tmp_path)
    with pytest.raises(ex.RunError, match="row 12 of a table with rows 0 … 11"):
        net.run({**case.arrays, "x8": np.array([length], np.int32)})


@pytest.mark.parametrize(
    ("case", "place", "given", "words"),
    [
        ("a cache that grows", 3, np.ones((2, 1, 4, 16), np.float32), ("past_key", "features per head")),
        ("a cache that grows", 12, np.ones(2, np.float32), ("k_scale", "must be None")),
        ("a cache that grows", 2, None, ("key and value must be given together",)),
        ("behind a past", 6, np.ones((2, 1, 4, 16), np.float32), ("past", "features per head")),
        ("behind a past", 8, np.array([3], np.int32), ("5 steps", "past_sequence_length", "one step")),
        ("behind a past", 9, np.zeros((2, 1, 7), np.int32), ("cache_indirection", "must be None")),
        (
            "a buffer",
            7,
            np.ones((2, 2, 11, 16), np.float32),
            ("past_sequence_length", "buffers must have equal lengths"),
        ),
        ("a buffer", 7, np.ones((2, 1, 12, 16), np.float32), ("past", "buffers (N, heads")),
        ("a buffer", 4, np.ones(2, np.int32), ("a mask", "(N, steps)")),
        ("a buffer", 8, np.array([3, 4], np.int32), ("past_sequence_length", "one integer")),
        ("a buffer, masked", 8, np.array([2], np.int32), ("beam_width", "must be None")),
        ("across", 2, None, ("query, key and value", "(N, steps, 2, 2, features)")),
        ("across with a bias", 3, np.float32(1), ("a bias", "must have one axis, of 96 features")),
        ("a buffer, masked", 10, np.ones(95, np.float32), ("a bias", "must have one axis, of 96 features")),
        ("behind a past, masked", 4, np.int32(1), ("a mask", "one to three axes")),
        ("one product, of lengths", 3, np.ones(2, bool), ("a mask", "of integers")),
        ("one product", 0, np.ones((1, 2, 5, 32), np.float32), ("input", "(N, steps, features)")),
        ("one product", 2, np.float32(1), ("a bias", "must have one axis, of 96 features")),
        ("one product behind a past", 4, np.ones((1, 2, 2, 7, 16), np.float32), ("a past", "(2, N, heads")),
        (
            "a bias of scores",
            2,
            np.ones((2, 32), np.float32),
            ("operands split into heads must be (N, steps, features)",),
        ),
        ("a smooth softmax", 3, np.float32(1), ("a cache", "past_key and past_value")),
        ("a bias of scores", 10, np.ones((1, 1, 4, 1, 8), np.float32), ("attention_bias", "(N, heads, steps, keys)")),
        ("across", 0, np.ones((2, 5, 3, 3, 16), np.float32), ("query, key and value", "(N, steps, 2, 3, features)")),
        (
            "one step to more keys",
            0,
            np.ones((2, 3, 32), np.float32),
            ("3 steps of queries with 7 of keys", "one step"),
        ),
        ("across, masked", 4, np.array([3, 4, 0, 1], np.int32), ("a mask", "one length per sequence")),
        ("one product, masked", 3, np.array([3], np.int32), ("a mask", "2 sequences")),
        ("inverses", 0, np.ones((2, 3), np.float32), ("square",)),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, case: str, place: int, given: Any, words: tuple[str, ...]
) -> None:
    """The error names the input and the rule before anything is computed."""
    inputs = [*CASES[case].inputs, *[None] * place]
    inputs[place] = given
    changed = CASES[case]._replace(inputs=inputs)
    with refused(ex.FileError, *words):
        opened(changed.model(), tmp_path).run(changed.arrays)


def test_a_singular_matrix_raises_an_error_at_run_time(tmp_path: Path) -> None:
    case = CASES["inverses"]._replace(inputs=[np.ones((2, 2), np.float32)])
    with pytest.raises(ex.RunError, match="singular"):
        opened(case.model(), tmp_path).run(case.arrays)


def test_heads_must_divide_the_features(tmp_path: Path) -> None:
    case = CASES["across"]._replace(attributes={"num_heads": 3})
    with pytest.raises(ex.FileError, match="the number of heads must divide the features"):
        opened(case.model(), tmp_path).run(case.arrays)


@pytest.mark.parametrize("type", ["MatMulIntegerToFloat", "DynamicQuantizeMatMul"])
def test_products_of_extreme_values_are_exact(tmp_path: Path, type: str) -> None:
    """Sums of 255 · 127 are exact; ONNX Runtime on processors without VNNI saturates them at 16 bits, losing up to
    half."""
    weights, one = np.full((64, 3), 127, np.int8), np.float32(1)
    a = np.full((2, 64), 255, np.uint8) if type == "MatMulIntegerToFloat" else np.full((2, 64), 255, np.float32)
    inputs = [a, weights, one, one] if type == "MatMulIntegerToFloat" else [a, weights, one]
    case = CASES["real result"]._replace(type=type, inputs=inputs)
    np.testing.assert_array_equal(opened(case.model(), tmp_path).run(case.arrays), np.full((2, 3), 64 * 255 * 127))
