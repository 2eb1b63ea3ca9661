"""Operators with other operands, arguments or weights than expected raise an error with rule and line."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.operators.context import OperatorContext

LINES = {
    "aten::add op 1 1 x y": "the input 'other' is missing; given: 1 unnamed operand",
    "aten::sub op 0 1 y": "the input 'input' is missing",
    "aten::Int op 0 1 y": "the input 'value' is missing",
    "aten::mul op 1 1 x y": "the input 'other' is missing",
    "aten::abs op 2 1 x x y": "operand 1 (x): not supported by explorer's aten::abs",
    "prim::ListUnpack op 2 1 x x y": "the operand must be a list",
    "aten::size op 3 1 x x x y": "aten::size: dim must be an integer",
    "pnnx.Attribute op 0 1 y": "0 weights are declared",
    "pnnx.Attribute op 0 1 y @a=(1)f32 @b=(1)f32": "2 weights are declared",
    "torch.slice_scatter op 2 1 x x y dim=0 start=0.5 end=1 step=1": "start=0.5",
    "torch.slice_scatter op 2 1 x x y dim=0 start=0 end=1 step=0": "step=0",
    "torch.arange op 0 1 y start=0 end=9223372036854775808 step=1": "must fit int64",
    "F.pad op 1 1 x y mode=constant pad=(1,1) value=word": "value must be a number",
    "torch.chunk op 1 1 x y chunks=0 dim=0": "chunks=0",
    "torch.split op 1 1 x y split_size=(1.5,2.5) dim=0": "a list of integers",
    "torch.split op 1 1 x y split_size=(5,-1) dim=0": "a part must have a size of 0 or more",
}


def read(folder: Path, line: str) -> Net:
    words = line.split()
    written = int(words[3])
    path = folder / "m.param"
    path.write_text(f"7767517\n3 {1 + written}\npnnx.Input in 0 1 x #x=(4)f32\n{line}\npnnx.Output out 1 0 y\n")
    return ex.open(path)


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("line", LINES)
def test_misuse_is_reported_with_its_rule(tmp_path: Path, line: str) -> None:
    """An operator without a required part is listed with the rule, and never as a defect of the reader."""
    (problem,) = read(tmp_path, line).problems().values()
    assert LINES[line] in str(problem)
    assert "m.param, line 4: operator 'op'" in str(problem)
    assert not isinstance(problem.__cause__, ex.ReaderError)


def test_a_range_that_ends_before_it_starts_is_empty(tmp_path: Path) -> None:
    net = read(tmp_path, "torch.arange op 0 1 y start=1e20 end=3.0 step=1 dtype=torch.float")
    assert net.run([0.0] * 4).shape == (0,)


def test_a_defect_of_a_reader_is_reported_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unforeseen exception in explorer's own reader becomes a problem with the operator's name and the cause."""

    def broken(op: OperatorContext) -> None:
        raise IndexError("tuple index out of range")

    broken.__module__ = "explorer.formats.pnnx.operators.linear_embedding"
    monkeypatch.setitem(TABLE._builders, "nn.ReLU", broken)
    net = read(tmp_path, "nn.ReLU op 1 1 x y")
    (finding,) = net.check()
    assert "operator 'op' (nn.ReLU): a defect in explorer's builder of nn.ReLU: IndexError: tuple index" in finding
    assert net.preview_plan().recording is not None
    with pytest.raises(ex.FileError, match="a defect in explorer's builder") as caught:
        net.run([0.0] * 4)
    assert isinstance(caught.value.__cause__, ex.ReaderError)
    assert isinstance(caught.value.__cause__.__cause__, IndexError)
