"""Recurrent ONNX operators in float32 on one thread: ``net.run`` against onnxruntime, at three numbers of steps."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.bench.contest import samples, table
from tests.bench.recurrent_files import GATES, saved

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("default")]

SIZES = ((1, 64), (1, 128), (8, 64))
"""batch size, and size of a state"""
STEPS = (50, 200, 800)
FEATURES = 32


def contestants(path: Path, x: Any) -> dict[str, Callable[[], Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    net = ex.open(path)
    return {"explorer": lambda: net.run(x), "onnxruntime": lambda: session.run(None, {"X": x})[0]}


@pytest.mark.parametrize("kind", GATES)
def test_times(kind: str, tmp_path: Path) -> None:
    """Both compute the same; print medians and minima in ms of CPU time, and explorer's ratio to onnxruntime."""
    rows = []
    for members, hidden in SIZES:
        for steps in STEPS:
            x = np.random.default_rng(1).normal(size=(steps, members, FEATURES)).astype("float32")
            runs = contestants(saved(tmp_path / "m.onnx", kind, steps, members, hidden, FEATURES), x)
            results = {name: run() for name, run in runs.items()}
            np.testing.assert_allclose(results["explorer"], results["onnxruntime"], rtol=1e-3, atol=1e-5)
            times = samples(runs, rounds=3, burst=10, clock=time.process_time)
            middle = {name: median(spent) for name, spent in times.items()}
            rows.append(
                [
                    f"{members} × {hidden}, {steps} steps",
                    *[f"{middle[name]:.2f} ({min(spent):.2f})" for name, spent in times.items()],
                    f"{middle['explorer'] / middle['onnxruntime']:.1f}",
                ]
            )
    print(
        table(f"{kind}, one thread", ["", "explorer, ms", "onnxruntime, ms", "ratio"], rows, ["numpy", "onnxruntime"])
    )
