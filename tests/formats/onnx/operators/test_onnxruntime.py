"""Operators of com.microsoft give what ONNX Runtime gives, with which they were compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from tests.formats.onnx.models import opened
from tests.formats.onnx.operators.onnxruntime_references import KEPT, cases

CASES = cases()
REFERENCES = np.load(KEPT)


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_onnx_runtime(tmp_path: Path, name: str) -> None:
    """Real numbers to a few units of float32, quantised ones exactly; dtypes are the same."""
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


def test_a_cache_of_keys_and_values_is_refused(tmp_path: Path) -> None:
    """A past that is not empty is named, before anything runs."""
    case = CASES["shared keys, an empty cache"]
    arrays = [*case.inputs]
    arrays[3] = arrays[4] = np.ones((2, 1, 4, 16), np.float32)
    net = opened(case._replace(inputs=arrays).model(), tmp_path)
    with pytest.raises(ex.FileError, match="past_key and past_value must be empty"):
        net.run(case._replace(inputs=arrays).arrays)


def test_heads_must_divide_the_features(tmp_path: Path) -> None:
    case = CASES["across"]._replace(attributes={"num_heads": 3})
    with pytest.raises(ex.FileError, match="the number of heads must divide the features"):
        opened(case.model(), tmp_path).run(case.arrays)
