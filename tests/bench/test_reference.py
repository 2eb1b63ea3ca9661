"""Nets compared with ONNX Runtime, which only this environment has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex

pytestmark = pytest.mark.bench
ASSETS = Path(__file__).parents[2] / "assets"


def test_onnxruntime_is_a_reference_by_name_and_as_a_session() -> None:
    """`net.compare("onnxruntime", x)` compares every operand of the net's file; a session compares its outputs."""
    import onnxruntime

    net = ex.open(ASSETS / "digits.onnx")
    images = np.load(ASSETS / "digits.npz")["images"]
    session = onnxruntime.InferenceSession(ASSETS / "digits.onnx")
    assert net.compare("onnxruntime", images).equal
    assert len(net.compare("onnxruntime", images).rows) == 14
    assert [row.name for row in net.compare(session, images).rows] == ["probability"]
