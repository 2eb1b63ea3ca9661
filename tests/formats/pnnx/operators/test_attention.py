"""Operands of attention modules, which pnnx writes without names: identified by shape, or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.net.definition.definition import OperatorDefinition
from tests.support.refusals import refused

OPTIONS = "embed_dim=8 num_heads=2 batch_first=True bias=False"


def attention(folder: Path, operands: str, types: str, options: str = OPTIONS) -> OperatorDefinition:
    """Return the operator as read from a file, with operands in this order and the inputs' types."""
    shapes = dict(pair.split("=") for pair in types.split())
    inputs = "\n".join([f"pnnx.Input in{name} 0 1 {name} #{name}={shape}" for name, shape in shapes.items()])
    noted = " ".join([f"#{name}={shape}" for name, shape in shapes.items()])
    # the last operand is always labelled as the mask
    mark = (
        f" $attn_mask={operands.split()[-1]}"
        if any(each.count(",") == 1 or "bool" in each for each in types.split())
        else ""
    )
    path = folder / "m.pnnx.param"
    path.write_text(
        f"7767517\n{len(shapes) + 2} {len(shapes) + 1}\n{inputs}\n"
        f"nn.MultiheadAttention op {len(operands.split())} 1 {operands} y {options}{mark} {noted}\n"
        "pnnx.Output out 1 0 y\n"
    )
    (operator,) = [each for each in ex.open(path).definition.operators if each.name == "op"]
    return operator


@pytest.mark.parametrize(
    ("operands", "types", "names"),
    [
        ("1 0", "0=(3,4,8)f32 1=(4,4)bool", "query=0 key=0 value=0 attn_mask=1"),
        ("1 0", "0=(3,4,8)f32 1=(3,4)bool", "query=0 key=0 value=0 key_padding_mask=1"),
        ("0 1", "0=(3,4,8)f32 1=(3,4)f32", "query=0 key=0 value=0 key_padding_mask=1"),
        ("1 0", "0=(3,4,8)f32 1=(6,4,4)bool", "query=0 key=0 value=0 attn_mask=1"),
        ("2 1 0", "0=(3,4,8)f32 1=(4,4)bool 2=(3,4)bool", "query=0 key=0 value=0 attn_mask=1 key_padding_mask=2"),
        ("2 1 0", "0=(3,4,8)f32 1=(3,5,8)f32 2=(5,4)bool", "query=1 key=0 value=0 attn_mask=2"),
        ("0 1", "0=(3,4,8)f32 1=(3,5,8)f32", "query=0 key=1 value=1"),
        ("2 1 0", "0=(3,4,8)f32 1=(3,4,8)f32 2=(3,4,8)f32", "query=2 key=1 value=0"),
    ],
)
def test_shapes_identify_the_operands(tmp_path: Path, operands: str, types: str, names: str) -> None:
    assert attention(tmp_path, operands, types).input_names == dict(pair.split("=") for pair in names.split())


@pytest.mark.parametrize(
    ("operands", "types", "texts"),
    [
        ("0 1", "0=(3,4,8)f32 1=(3,4,8)f32", ["query 0, key 1, value 1 or query 0, key 0, value 1"]),
        ("1 0", "0=(4,4,8)f32 1=(4,4)bool", ["value 0, attn_mask 1 or query 0", "key_padding_mask 1"]),
        ("1 2 0", "0=(4,4,8)f32 1=(4,4)bool 2=(4,4)bool", ["attn_mask 1, key_padding_mask 2 or"]),
    ],
)
def test_ambiguous_shapes_raise_an_error(tmp_path: Path, operands: str, types: str, texts: list[str]) -> None:
    """Queries and keys of one shape may be shared in several ways, and a mask may be for samples or steps of one
    size."""
    attention(tmp_path, operands, types)
    net = ex.open(tmp_path / "m.pnnx.param")
    with refused(ex.ExplorerError, "operands that may be", "the shape must identify an operand", *texts):
        raise net.problems()["op"]


def test_named_operands_are_written_and_read_again(tmp_path: Path) -> None:
    operator = attention(tmp_path, "1 0", "0=(3,4,8)f32 1=(3,4)bool")
    net = ex.open(tmp_path / "m.pnnx.param")
    net.save(tmp_path / "again.pnnx.param")
    (again,) = [each for each in ex.open(tmp_path / "again.pnnx.param").definition.operators if each.name == "op"]
    assert again.input_names == operator.input_names
