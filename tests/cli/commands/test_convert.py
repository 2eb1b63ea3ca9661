"""``explorer convert``: the same net in another format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main

ASSETS = Path(__file__).parents[3] / "assets"


@pytest.mark.spec("C-12", "I-1")
@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("digits.pnnx.param", "d.onnx", " operators of onnx, 0 ?×1×8×8 → 15 ?×10\n"),
        ("digits.pnnx.param", "d.pnnx.param", " operators of pnnx, "),
        ("digits.onnx", "d.json", " operators of onnx, image "),
        ("digits.onnx", "d.onnx", " operators of onnx, image "),
    ],
)
def test_the_target_computes_the_same_as_the_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, target: str, said: str
) -> None:
    assert main(["convert", str(ASSETS / source), str(tmp_path / target)]) == 0
    assert said in capsys.readouterr().out
    picture = np.random.default_rng(3).standard_normal((1, 1, 8, 8)).astype(np.float32)
    values = [net.run(picture) for net in (ex.open(ASSETS / source), ex.open(tmp_path / target))]
    results = [[*value.values()] if isinstance(value, dict) else [value] for value in values]
    np.testing.assert_allclose(np.asarray(results[1]), np.asarray(results[0]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("d.pnnx.param", "must have operator types of 'pnnx'"),
        ("d.txt", "the extension '.txt'"),
        (str(ASSETS / "digits.onnx"), "the output digits.onnx is also an input"),
    ],
)
def test_a_net_that_cannot_be_written_raises_an_error_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    before = (ASSETS / "digits.onnx").read_bytes()
    assert main(["convert", str(ASSETS / "digits.onnx"), str(tmp_path / target)]) == 2
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]
    assert (ASSETS / "digits.onnx").read_bytes() == before


def test_weights_do_not_overwrite_other_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The .npz next to a new .json may contain other data, and is overwritten only if a model was saved with it."""
    data, target = tmp_path / "digits.npz", tmp_path / "digits.json"
    np.savez(data, images=np.arange(3))
    before = data.read_bytes()
    assert main(["convert", str(ASSETS / "digits.onnx"), str(target)]) == 2
    text = capsys.readouterr().err
    assert "digits.npz exists, and was not saved with a model" in text
    assert "remove digits.npz first" in text
    assert data.read_bytes() == before
    assert not target.exists()
    data.unlink()
    for _ in range(2):  # it may overwrite its own weights
        assert main(["convert", str(ASSETS / "digits.onnx"), str(target)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{target} with {data}: ")
    target.unlink()
    assert main(["convert", str(ASSETS / "digits.onnx"), str(target)]) == 0


def test_weights_that_are_read_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The target's weights would overwrite the file given with ``--weights``."""
    weights, target = tmp_path / "c.pnnx.bin", tmp_path / "c.pnnx.param"
    weights.write_bytes((ASSETS / "digits.pnnx.bin").read_bytes())
    before = weights.read_bytes()
    assert main(["convert", str(ASSETS / "digits.pnnx.param"), "--weights", str(weights), str(target)]) == 2
    assert "the output c.pnnx.bin is also an input" in capsys.readouterr().err
    assert weights.read_bytes() == before
    assert not target.exists()
