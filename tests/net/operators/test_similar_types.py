"""Suggestions of known operator types for an unknown one."""

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
def test_the_intended_type_is_suggested(
    table: OperatorTable, change: Callable[[str, random.Random], str], share: float
) -> None:
    """Mistyped, extended or moved types mostly give the intended one."""
    chance = random.Random(7)
    meant = [chance.choice(table.types()) for _ in range(200)]
    result = sum(name in table.near(change(name, chance)) for name in meant)
    assert result >= share * len(meant)


def test_case_is_ignored_and_the_most_similar_type_comes_first() -> None:
    near = SimilarTypes(["nn.ReLU", "nn.ReLU6", "nn.RReLU", "nn.Conv2d", "aten::relu"])
    assert near.of("nn.relu") == ("nn.ReLU", "nn.ReLU6", "nn.RReLU")
    assert near.of("NN.CONV2D") == ("nn.Conv2d",)
    assert SimilarTypes(["aten::to", "x.convert"]).of("my.library.to") == ("aten::to",), "it is the very word"


@pytest.mark.parametrize("type", ["", "q", "\x00", "完全", "w" * 100_000])
def test_a_dissimilar_type_has_no_suggestion(type: str) -> None:
    assert PNNX.near(type) == []


def test_a_type_that_is_registered_later_is_suggested() -> None:
    table = OperatorTable("test")
    assert table.near("my.Layer") == []
    table.register("my.Layers")(lambda op: None)
    assert table.near("my.Layer") == ["my.Layers"]


def test_a_common_prefix_alone_gives_no_suggestion() -> None:
    """Types share "nn.", which does not indicate what they compute."""
    assert SimilarTypes(["nn.SiLU", "nn.ReLU"]).of("nn.Wibble") == ()
    assert SimilarTypes(["nn.SiLU", "nn.ReLU"]).of("nn.RLU")[0] == "nn.ReLU"
