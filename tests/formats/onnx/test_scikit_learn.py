"""Files from the exporters of scikit-learn, LightGBM and XGBoost give ONNX Runtime's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main

pytestmark = pytest.mark.spec("I-5", "I-9")

MODELS = Path(__file__).parents[3] / "assets" / "models"
FILES = sorted((MODELS / "sklearn").glob("*.onnx"))
reference = np.load(MODELS / "reference_sklearn.npz")
DELEGATED = {"tfidf_logistic", "counts_bayes", "characters", "holes_nearest"}
"""files with an operator that the onnx package computes"""


def values(name: str, side: str) -> dict[str, Any]:
    """Return the stored inputs or results of a file."""
    prefix = f"{name}/{side}/"
    return {key.removeprefix(prefix): reference[key] for key in reference.files if key.startswith(prefix)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_gives_the_results_of_onnx_runtime(path: Path) -> None:
    """Labels, including strings, are equal, and numbers differ by a few float32 ulps of the largest."""
    net = ex.open(path)
    assert net.check() == []
    inputs, expected = values(path.stem, "in"), values(path.stem, "out")
    results = net.run(inputs)
    for name, wanted in expected.items():
        result = results[name] if len(expected) > 1 else results
        assert result.shape == wanted.shape
        if wanted.dtype.kind == "f":
            # ONNX Runtime sums products with support vectors in float32, Explorer in float64
            np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=2e-5 * max(1, np.abs(wanted).max()))
        else:
            assert result.tolist() == wanted.tolist()
    labels = net.plan(inputs).recording.nodes.label
    assert any("delegated" in label for label in labels) == (path.stem in DELEGATED)


def test_each_file_has_a_reference() -> None:
    assert {key.split("/")[0] for key in reference.files} == {path.stem for path in FILES}
    assert len(FILES) > 30


def test_a_pipeline_of_columns_is_run_and_drawn_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, picture = MODELS / "sklearn" / "columns.onnx", tmp_path / "columns.html"
    np.savez(tmp_path / "in.npz", **values("columns", "in"))
    assert main(["check", str(path)]) == 0
    assert main(["run", str(path), "--input", str(tmp_path / "in.npz")]) == 0
    assert "output_label: text3 (12,), 'yes'" in capsys.readouterr().out
    assert main(["show", str(path), "-o", str(picture)]) == 0
    assert "lookup" in picture.read_text("utf-8")
