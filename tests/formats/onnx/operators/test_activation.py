"""Activations of ONNX files with NaN inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.formats.onnx.models import node, result


def test_nan_does_not_exceed_a_threshold(tmp_path: Path) -> None:
    """The standard returns x if x > alpha, and otherwise 0; torch's threshold keeps NaN."""
    operator = node("ThresholdedRelu", ["x"], ["y"], alpha=0.5)
    value = result(tmp_path, operator, np.array([np.nan, 0.4, 0.6, np.inf, -np.inf], np.float32))
    np.testing.assert_array_equal(value, np.array([0, 0, 0.6, np.inf, 0], np.float32))
