"""Runs with onnxruntime and LiteRT on the operators of files: times of operators, their sum, and values."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import explorer as ex
from assets.tflite_models import CASES
from tests.support.runtime_models import MODELS, cover, model

pytestmark = pytest.mark.bench


def test_times_of_operators(tmp_path: Path) -> None:
    """Each operator has a time or is computed before the run; print the sum of times next to the session's time."""
    print(f"\n{'model':16} operators kernels  timed  early   sum µs   run µs  share  plain µs  largest error")
    for name in MODELS:
        path, inputs, tolerance = model(name, tmp_path)
        net = ex.open(path)
        recording: Any = net.recorded_by("onnxruntime", inputs)
        timed, early, operators = cover(net, recording)
        total, whole = sum(step.micros for step in recording.run.steps), recording.run.micros
        plain = []
        for _ in range(20):
            began = perf_counter()
            net.run(inputs, executor="onnxruntime")
            plain.append((perf_counter() - began) * 1e6)
        comparison = net.compare("onnxruntime", inputs, tolerance=tolerance)
        error = max(row.error for row in comparison.rows)
        kernels = len(recording.schedule.kernels)
        print(
            f"{name:16} {operators:9} {kernels:7} {len(timed):6} {len(early):6} {total:8.0f} {whole:8.0f} "
            f"{total / whole:6.1%} {min(plain):9.0f}  {error:.1e}"
        )
        assert len(timed) + len(early) == operators
        assert comparison.equal


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_times_every_operator(name: str, tmp_path: Path) -> None:
    """Every operator of the file has a time or is computed before the run, and all values agree."""
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
