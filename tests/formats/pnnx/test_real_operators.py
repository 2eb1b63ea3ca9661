"""Files that pnnx wrote with one operator type each, against torch's results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex

FILES = np.load(Path(__file__).parents[3] / "assets" / "operators.npz")
CASES = [key.removesuffix("/param") for key in FILES.files if key.endswith("/param")]


@pytest.mark.spec("I-6")
@pytest.mark.parametrize("case", CASES)
def test_files_of_one_operator_equal_torch(case: str, tmp_path: Path) -> None:
    """Every operator type gives torch's values, shapes and dtypes."""
    (tmp_path / "model.pnnx.param").write_text(str(FILES[f"{case}/param"]))
    (tmp_path / "model.pnnx.bin").write_bytes(FILES[f"{case}/bin"].tobytes())
    inputs, expected = (
        [FILES[f"{case}/{kind}{i}"] for i in range(9) if f"{case}/{kind}{i}" in FILES] for kind in ("input", "output")
    )
    net = ex.open(tmp_path / "model.pnnx.param")
    assert not net.unknown()
    result = net.run(*inputs)
    values = list(result.values()) if isinstance(result, dict) else [result]
    assert [(value.shape, value.dtype) for value in values] == [(value.shape, value.dtype) for value in expected]
    for value, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=2e-5, atol=2e-6)
