"""Runs with onnxruntime on the operators of files: times of operators, their sum, the session's time, and values."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

import explorer as ex
from tests.support.runtime_models import MODELS, cover, model

pytestmark = pytest.mark.bench


def test_times_of_operators(tmp_path: Path) -> None:
    """Each operator has a time or is computed before the run; print the sum of times next to the session's time."""
    pytest.importorskip("onnxruntime")
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
