"""Boxes of operators: from their names, or from their neighbours if a name was generated."""

from __future__ import annotations

import pytest

from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, WeightReference
from explorer.net.definition.scope_inference import box_paths

WEIGHTS = {"weight": WeightReference("w", (1,), "float32")}


def paths(*operators: tuple[str, str, str], shapes: dict[str, tuple[int, ...]] | None = None) -> dict[str, str]:
    """Return the boxes of operators, each given by its name, inputs and outputs; convolutions have weights."""
    values = [
        OperatorDefinition(
            "any",
            name,
            tuple(reads.split()),
            tuple(makes.split()),
            weights=WEIGHTS if name.startswith(("conv", "fc")) else {},
        )
        for name, reads, makes in operators
    ]
    noted = {blob: BlobType(shape) for blob, shape in (shapes or {}).items()}
    net = NetDefinition.of("n", values, ["x"], [], types=noted)
    return {name: "/".join(path) for name, path in box_paths(net).items()}


def boxes(*operators: tuple[str, str, str], shapes: dict[str, tuple[int, ...]] | None = None) -> list[str]:
    """Return the innermost box of each operator, in order."""
    return [path.rpartition("/")[0] for path in paths(*operators, shapes=shapes).values()]


def test_dots_in_a_name_separate_boxes() -> None:
    assert paths(("layer1.0.relu", "x", "y"), ("fc", "y", "z"))["layer1.0.relu"] == "layer1/0/relu"


def test_dots_in_a_generated_name_do_not_separate_boxes() -> None:
    assert paths(("torch.flatten_0", "x", "y"), ("F.softmax_1", "y", "z")) == {
        "torch.flatten_0": "torch.flatten_0",
        "F.softmax_1": "F.softmax_1",
    }


def test_a_generated_name_between_two_operators_of_a_box_is_in_it() -> None:
    """The innermost box counts; an operator joins the box that has fewer inputs and outputs with it."""
    places = paths(
        ("convbn2d_0", "x", "a"),
        ("block.0.relu", "a", "b"),
        ("convbn2d_1", "b", "c"),
        ("block.0.relu2", "c", "d"),
        ("pnnx_expr_0", "b d", "e"),
        ("block.1.relu", "e", "f"),
        ("pnnx_unique_0", "f", "g"),
    )
    assert places["convbn2d_0"] == "block/0/convbn2d_0"
    assert places["convbn2d_1"] == "block/0/convbn2d_1"
    assert places["pnnx_expr_0"] == "block/0/pnnx_expr_0"
    assert places["pnnx_unique_0"] == "block/1/pnnx_unique_0"


def test_a_given_name_is_kept() -> None:
    places = paths(("a.x", "x", "1"), ("other", "1", "2"), ("a.y", "2", "3"), ("..odd", "3", "4"))
    assert places["other"] == "other"
    assert places["..odd"] == "././odd"


@pytest.mark.spec("V-7")
def test_a_stage_of_a_residual_net_contains_its_convolutions_sums_and_activations() -> None:
    """Only one activation of each block has a name; the shortcut's convolution is in the block, too."""
    places = boxes(
        ("convbn2d_0", "x", "0"),
        ("maxpool", "0", "1"),
        ("convbn2d_1", "1", "2"),
        ("layer1.0.relu", "2", "3"),
        ("convbn2d_2", "3", "4"),
        ("pnnx_expr_1", "4 1", "5"),
        ("pnnx_unique_0", "5", "6"),
        ("convbn2d_3", "6", "7"),
        ("layer2.0.relu", "7", "8"),
        ("convbn2d_4", "8", "9"),
        ("convbn2d_5", "6", "10"),
        ("pnnx_expr_0", "9 10", "11"),
        ("pnnx_unique_1", "11", "12"),
        ("avgpool", "12", "13"),
        ("torch.flatten_0", "13", "14"),
        ("fc", "14", "15"),
    )
    assert places == ["", "", *["layer1/0"] * 5, *["layer2/0"] * 6, "", "", ""]


@pytest.mark.spec("V-7")
def test_in_a_chain_a_box_begins_with_weights() -> None:
    """Every cut of a chain crosses one blob, so an operator with weights begins a block, and one without ends it."""
    places = boxes(
        ("convbn2d_0", "x", "0"),
        ("features.0.2", "0", "1"),
        ("convbn2d_1", "1", "2"),
        ("features.1.2", "2", "3"),
        ("convbn2d_2", "3", "4"),
        ("F.dropout_0", "4", "5"),
        ("convbn2d_3", "5", "6"),
        ("features.2.2", "6", "7"),
    )
    assert places == ["features/0"] * 2 + ["features/1"] * 4 + ["features/2"] * 2


@pytest.mark.spec("V-7")
def test_a_sum_with_a_value_from_before_a_box_is_outside_it() -> None:
    places = boxes(
        ("ls.0.ln1", "x", "0"),
        ("ls.0.at.q", "0", "1"),
        ("F.softmax_0", "1", "2"),
        ("ls.0.at.o", "2", "3"),
        ("pnnx_expr_1", "x 3", "4"),
        ("ls.0.ln2", "4", "5"),
        ("ls.0.f", "5", "6"),
        ("pnnx_expr_0", "4 6", "7"),
        ("ls.1.ln1", "7", "8"),
    )
    assert places == ["ls/0", *["ls/0/at"] * 3, *["ls/0"] * 4, "ls/1"]


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(
    ("part", "reads", "inside"), [("at.", "5", ""), ("at.", "2 5", "ls/1"), ("", "5", "ls/1")]
)  # fmt: skip
def test_the_last_block_of_a_list_ends_like_the_previous_one(part: str, reads: str, inside: str) -> None:
    """A norm with other weights after the last block is outside the list, as its name would indicate.

    A sum with the block's input belongs to the block, and so does what follows it if blocks are small.
    """
    places = boxes(
        ("ls.0.ln", "x", "0"),
        (f"ls.0.{part}q", "0", "1"),
        ("ls.0.o", "1", "2"),
        ("ls.1.ln", "2", "3"),
        (f"ls.1.{part}q", "3", "4"),
        ("ls.1.o", "4", "5"),
        ("convbn2d_2", reads, "6"),
        ("head", "6", "7"),
    )
    at = "/at" * (part != "")
    assert places == ["ls/0", f"ls/0{at}", "ls/0", "ls/1", f"ls/1{at}", "ls/1", inside, ""]


@pytest.mark.spec("V-7")
def test_the_first_block_of_a_list_ends_like_a_chain_of_generated_names() -> None:
    """No previous block determines its end, even if it begins with the net's first operator."""
    chain = [("ls.0.at.q", "x", "0"), ("F.relu_0", "0", "1"), ("F.relu_1", "1", "2"), ("head", "2", "3")]
    assert boxes(*chain) == ["ls/0/at", "ls/0/at", "ls/0/at", ""]


@pytest.mark.spec("V-7")
def test_an_operator_that_changes_the_shape_between_two_boxes_belongs_to_neither() -> None:
    shapes = {"1": (1, 8, 7, 7), "2": (1, 8, 7, 7), "3": (1, 8)}
    places = boxes(
        ("features.0.0", "x", "0"),
        ("features.0.1", "0", "1"),
        ("F.relu_0", "1", "2"),
        ("torch.mean_0", "2", "3"),
        ("fc.1", "3", "4"),
        shapes=shapes,
    )
    assert places == ["features/0", "features/0", "features/0", "", "fc"]


@pytest.mark.spec("V-7")
def test_operators_are_assigned_by_data_flow_instead_of_file_order() -> None:
    """Two towers with alternating operators in the file are separated."""
    places = boxes(
        ("a.0", "x", "0"),
        ("b.0", "x", "1"),
        ("convbn2d_0", "0", "2"),
        ("convbn2d_1", "1", "3"),
        ("a.1", "2", "4"),
        ("b.1", "3", "5"),
    )
    assert places == ["a", "b", "a", "b", "a", "b"]
