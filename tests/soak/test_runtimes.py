"""Runs of files with onnxruntime and LiteRT, if they are installed: values and times of every operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from assets.tflite_models import CASES
from tests.support.runtime_models import MODELS, cover, model

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_times_every_operator(name: str, tmp_path: Path) -> None:
    """Every operator of the file has a time or is computed before the run, and all values agree."""
    pytest.importorskip("onnxruntime")
    path, inputs, tolerance = model(name, tmp_path)
    net = ex.open(path)
    recording = net.recorded_by("onnxruntime", inputs)
    timed, early, operators = cover(net, recording)
    assert len(timed) + len(early) == operators
    counts = recording.stages[-1].counts
    assert "unmatched" not in counts
    assert "partly_matched" not in counts
    assert net.compare("onnxruntime", inputs, tolerance=tolerance).equal


@pytest.mark.parametrize("name", ["conv same 1 1", "MAX_POOL_2D same 1"])
def test_litert_computes_the_values_of_a_file(name: str, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    case = CASES[name]
    path = tmp_path / "m.tflite"
    path.write_bytes(case.file())
    net, inputs = ex.open(path), tuple(case.inputs())
    np.testing.assert_allclose(net.run(*inputs, executor="litert"), net.run(*inputs), rtol=0, atol=1e-5)
    assert net.compare("litert", *inputs).equal
    recording = net.recorded_by("litert", inputs)
    assert recording.run is not None
    assert recording.run.micros > 0
    assert recording.run.steps == ()
