"""Which known operator types are said to be near an unknown one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from explorer.formats.onnx.operators import TABLE as ONNX
from explorer.formats.pnnx.operators import TABLE as PNNX
from explorer.net.operators.table import OperatorTable, SimilarTypes


def mistyped(name: str, chance: random.Random) -> str:
    at = chance.randrange(len(name))
    return name[:at] + chance.choice("abcxyz_.2") + name[at + 1 :]


def extended(name: str, chance: random.Random) -> str:
    return name + chance.choice(("_", "2d", "_new", "V2", "Layer"))


def of_another_family(name: str, chance: random.Random) -> str:
    return chance.choice(("my.", "custom::", "torch.nn.")) + name.replace("::", ".").rpartition(".")[2]


@pytest.mark.spec("I-5")
@pytest.mark.parametrize("table", [PNNX, ONNX], ids=["pnnx", "onnx"])
@pytest.mark.parametrize(
    ("change", "share"), [(mistyped, 0.8), (extended, 0.95), (of_another_family, 0.7)], ids=["typo", "suffix", "family"]
)
def test_the_type_that_was_meant_is_near(
    table: OperatorTable, change: Callable[[str, random.Random], str], share: float
) -> None:
    """A mistyped, extended or moved type is answered with the known one that was meant, in the most cases."""
    chance = random.Random(7)
    meant = [chance.choice(table.types()) for _ in range(200)]
    result = sum(name in table.near(change(name, chance)) for name in meant)
    assert result >= share * len(meant)


def test_case_does_not_count_and_the_most_alike_is_first() -> None:
    near = SimilarTypes(["nn.ReLU", "nn.ReLU6", "nn.RReLU", "nn.Conv2d", "aten::relu"])
    assert near.of("nn.relu") == ("nn.ReLU", "nn.ReLU6", "nn.RReLU")
    assert near.of("NN.CONV2D") == ("nn.Conv2d",)
    assert SimilarTypes(["aten::to", "x.convert"]).of("my.library.to") == ("aten::to",), "it is the very word"


@pytest.mark.parametrize("type", ["", "q", "\x00", "完全", "w" * 100_000])
def test_what_is_like_nothing_has_nothing_near(type: str) -> None:
    assert PNNX.near(type) == []


def test_a_type_that_is_registered_later_is_near() -> None:
    table = OperatorTable("test")
    assert table.near("my.Layer") == []
    table.register("my.Layers")(lambda op: None)
    assert table.near("my.Layer") == ["my.Layers"]


def test_a_family_alone_makes_no_type_near() -> None:
    """Types of one family have "nn." in common, which says nothing of what they compute."""
    assert SimilarTypes(["nn.SiLU", "nn.ReLU"]).of("nn.Wibble") == ()
    assert SimilarTypes(["nn.SiLU", "nn.ReLU"]).of("nn.RLU")[0] == "nn.ReLU"
