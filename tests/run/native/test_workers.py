"""Dask workers run compiled kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex

pytestmark = [pytest.mark.filterwarnings("default::DeprecationWarning:distributed"), pytest.mark.xdist_group("dask")]


@pytest.mark.spec("K-3")
def test_workers_compile_kernels_and_compute_the_same_bits(
    compiler: None, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of_workers"))  # workers are other processes
    x = ex.tensor(np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32))
    roots = [ex.transpose(ex.tanh(ex.sigmoid(x @ x * n).T + x) * n) @ x for n in range(1, 5)]
    with ex.Workers(2, bandwidth=1e5, latency=10, overhead=10):
        plan = ex.EvalPlan(kernels="native", executor="dask", without=("batch",))
        handles = [plan.register(root) for root in roots]
        plan.eval()
    assert plan.recording.stages[-1].counts["pieces_sent"] >= 2
    assert [*(tmp_path / "of_workers" / "explorer" / "kernels").glob("*.so")]
    for handle, value in zip(handles, ex.evaluate(roots, kernels="native", without=("batch",)), strict=True):
        np.testing.assert_array_equal(handle.data(), value)
