"""Boxes of operators: from their names, and from their neighbours where a name was made up."""

from __future__ import annotations

from explorer.net.boxes import box_paths
from explorer.net.definition import NetDefinition, OperatorDefinition


def paths(*operators: tuple[str, str, str]) -> dict[str, str]:
    made = [
        OperatorDefinition("any", name, tuple(reads.split()), tuple(makes.split())) for name, reads, makes in operators
    ]
    net = NetDefinition.of("n", made, ["x"], [])
    return {name: "/".join(path) for name, path in box_paths(net).items()}


def test_dots_of_a_name_are_boxes() -> None:
    assert paths(("layer1.0.relu", "x", "y"), ("fc", "y", "z"))["layer1.0.relu"] == "layer1/0/relu"


def test_dots_of_a_made_up_name_are_none() -> None:
    assert paths(("torch.flatten_0", "x", "y"), ("F.softmax_1", "y", "z")) == {
        "torch.flatten_0": "torch.flatten_0",
        "F.softmax_1": "F.softmax_1",
    }


def test_a_made_up_name_between_two_of_a_box_is_in_it() -> None:
    """The innermost box counts; what only follows or only precedes a box is outside."""
    found = paths(
        ("convbn2d_0", "x", "a"),
        ("block.0.relu", "a", "b"),
        ("convbn2d_1", "b", "c"),
        ("block.0.relu2", "c", "d"),
        ("pnnx_expr_0", "b d", "e"),
        ("block.1.relu", "e", "f"),
        ("pnnx_unique_0", "f", "g"),
    )
    assert found["convbn2d_0"] == "convbn2d_0"
    assert found["convbn2d_1"] == "block/0/convbn2d_1"
    assert found["pnnx_expr_0"] == "block/pnnx_expr_0"
    assert found["pnnx_unique_0"] == "pnnx_unique_0"


def test_a_name_that_someone_gave_stays() -> None:
    found = paths(("a.x", "x", "1"), ("other", "1", "2"), ("a.y", "2", "3"), ("..odd", "3", "4"))
    assert found["other"] == "other"
    assert found["..odd"] == "././odd"
