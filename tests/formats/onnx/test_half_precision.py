"""Half precision in the standard's own cases: sums are taken in float32, and written as float16."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.formats.onnx.standard import cases, outcome


@pytest.mark.spec("I-5")
@pytest.mark.soak
def test_depthwise_convolutions_in_half_precision_run(tmp_path: Path) -> None:
    """Depthwise convolutions of float16 run in the standard's own cases, of random values."""
    chosen = [case for case in cases("causal_conv_with_state") if "fp16" in case.name]
    assert len(chosen) == 4
    kinds = [outcome(case, tmp_path / "m.onnx")[0] for case in chosen]
    assert "refused" not in kinds
    assert kinds.count("right") >= 2
