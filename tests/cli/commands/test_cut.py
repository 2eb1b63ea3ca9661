"""``explorer cut``: a part of a model as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.cli import main

ASSETS = Path(__file__).parents[3] / "assets"
DIGITS = str(ASSETS / "digits.onnx")
IMAGES = np.load(ASSETS / "digits.npz")["images"][:1]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["part.onnx", "part.json"])
def test_a_part_of_a_model_is_written_and_computes_the_same(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Cut out the part of a model between operands, and save it with its weights, as a command and in Python."""
    ends = ["/relu1/Relu_output_0", "/residual/relu2/Relu_output_0"]
    assert main(["cut", DIGITS, "--inputs", ends[0], "--outputs", ends[1], "-o", target]) == 0
    said = capsys.readouterr().out
    assert said.startswith(target)
    assert "8 operators of onnx, /relu1/Relu_output_0 ?×?×?×? → /residual/relu2/Relu_output_0" in said
    whole, part = ex.open(DIGITS), ex.open(target)
    x, y = (whole.cut(outputs=[end]).run(IMAGES) for end in ends)
    np.testing.assert_allclose(part.run(x), y, rtol=1e-6, atol=1e-6)


def test_an_input_that_the_file_does_not_declare_gets_the_type_of_the_operand() -> None:
    """Its lengths are known if the lengths of all inputs are known."""
    net = ex.open(ASSETS / "models" / "resnet18.onnx")
    name = next(iter(net.operators.values())).outputs[0]
    part = net.cut(inputs=[name])
    assert part.inputs[name].dtype == "float32"
    assert part.inputs[name].shape is not None
    assert len(part.inputs[name].shape) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--outputs", "/conv2/Conv", "-o", "p.onnx"], "is an operator, which computes '/conv2/Conv_output_0'"),
        (["--outputs", "nothing", "-o", "p.onnx"], "unknown blob 'nothing'"),
        (["-o", "p.onnx"], "a part must begin or end at a named operand"),
        (
            ["--inputs", "/fc2/Gemm_output_0", "--outputs", "/conv1/Conv_output_0", "-o", "p.onnx"],
            "must include 'image'",
        ),
        (["--outputs", "/relu1/Relu_output_0", "-o", DIGITS], "the output digits.onnx is also an input"),
        (["--outputs", "/relu1/Relu_output_0", "-o", "p.txt"], "fix: write to p.onnx"),
    ],
)
def test_errors_write_nothing(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(DIGITS).read_bytes()
    assert main(["cut", DIGITS, *arguments]) == 2
    text = capsys.readouterr()
    assert said in text.err
    assert text.out == ""
    assert not [*Path.cwd().iterdir()]
    assert Path(DIGITS).read_bytes() == before
