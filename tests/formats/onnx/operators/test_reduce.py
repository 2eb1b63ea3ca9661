"""Reductions over empty axes in ONNX files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.formats.onnx.models import node, result


@pytest.mark.parametrize(
    ("dtype", "lowest", "highest"),
    [
        ("float32", -np.inf, np.inf),
        ("float16", -np.inf, np.inf),
        ("int8", -128, 127),
        ("uint8", 0, 255),
        ("int64", -(2**63), 2**63 - 1),
        ("bool", False, True),
    ],
)
def test_the_maximum_and_minimum_of_no_elements_are_limits_of_the_dtype(
    dtype: str, lowest: Any, highest: Any, tmp_path: Path
) -> None:
    """The standard defines these values, and ONNX Runtime returns them, e.g. for a detector without boxes."""
    for type_, expected in (("ReduceMax", lowest), ("ReduceMin", highest)):
        for keep, shape in ((0, (2, 3)), (1, (2, 1, 3))):
            operator = node(type_, ["x", "axes"], ["y"], keepdims=keep)
            value = result(tmp_path, operator, np.zeros((2, 0, 3), dtype), np.array([1]))
            assert (value.shape, value.dtype) == (shape, np.dtype(dtype))
            assert np.all(value == expected)


def test_an_extreme_along_another_axis_of_an_empty_array_is_empty(tmp_path: Path) -> None:
    operator = node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)
    assert result(tmp_path, operator, np.zeros((0, 3), np.float32), np.array([1])).shape == (0,)
    assert result(tmp_path, operator, np.zeros((2, 0, 3), np.float32), np.array([0])).shape == (0, 3)
