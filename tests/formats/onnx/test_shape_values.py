"""Shapes that depend on values: what decides them is computed first, and plans are kept for each outcome."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

import explorer as ex
from explorer.net import Net
from explorer.view.model.labels import short_type
from tests.formats.onnx.models import BOOL, FLOAT, INT64, model, node, opened


def chosen(folder: Path) -> Net:
    """A net that returns the elements of x other than zero, doubled."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Squeeze", ["places", "first"], ["row"]),
        node("Gather", ["x", "row"], ["picked"]),
        node("Add", ["picked", "picked"], ["y"]),
    ]
    return opened(model(nodes, {"x": (FLOAT, ["n"])}, ["y"], {"first": np.array([0])}), folder)


def reshaped(folder: Path) -> Net:
    """A net that gives x the shape |s|."""
    nodes = [node("Abs", ["s"], ["sizes"]), node("Reshape", ["x", "sizes"], ["y"])]
    return opened(model(nodes, {"x": (FLOAT, [6]), "s": (INT64, [2])}, ["y"]), folder)


def test_a_result_whose_length_depends_on_values(tmp_path: Path) -> None:
    """As many elements are gathered as differ from zero, whatever the run before had."""
    net = chosen(tmp_path)
    for values in ([0, 1, 2], [3, 0, 5], [0, 0, 0], [1, 1, 1], [0, 1, 2]):
        x = np.array(values, np.float32)
        np.testing.assert_array_equal(net.run(x), 2 * x[x != 0])


def test_a_shape_that_is_computed_from_an_input(tmp_path: Path) -> None:
    """Reshape takes its sizes from an operator that reads the net's input; executors and inner graphs alike."""
    net, x = reshaped(tmp_path), np.arange(6, dtype=np.float32)
    for sizes in ((2, -3), (-3, -2), (6, 1), (1, 6), (-6, 1)):
        for executor in ("simple", "dag", "async"):
            result = net.run(x, np.array(sizes), executor=executor)
            np.testing.assert_array_equal(result, x.reshape(np.abs(sizes)))


def test_plans_are_kept_for_what_decides_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose values decide the same shapes builds nothing, and plans nothing."""
    net = chosen(tmp_path)
    net.run(np.array([0, 1, 2], np.float32))
    built = []
    build = type(net.session.builder).build
    monkeypatch.setattr(type(net.session.builder), "build", lambda *a, **k: built.append(1) or build(*a, **k))
    np.testing.assert_array_equal(net.run(np.array([4, 0, 3], np.float32)), [8, 6])
    assert not built
    np.testing.assert_array_equal(net.run(np.array([4, 0, 0], np.float32)), [8])
    assert built


def test_the_plan_says_what_was_computed_first(tmp_path: Path) -> None:
    """A stage of the plan names each value that decided a shape, and the operations that it took."""
    net = reshaped(tmp_path)
    plan = net.plan(np.zeros(6, np.float32), np.array([2, -3]))
    (stage,) = [stage for stage in plan.recording.stages if stage.name == "shape values"]
    (decision,) = [entry for entry in plan.recording.decisions if entry.code == "computed_first"]
    assert stage.purpose.startswith("Tell which values were computed before the plan")
    assert decision.facts == {"count": 1, "value": "shape", "operator": "Reshape_2", "text": "[2, 3]"}
    assert "1 operation was computed before this plan was built" in plan.explain()
    plan.eval()
    assert len(decision.subjects) == 1


def test_without_values_the_net_is_drawn_and_nothing_is_wrong_with_it(tmp_path: Path) -> None:
    """Nothing is found by check(); operators behind the unknown shape are drawn, and say why it is unknown."""
    net = chosen(tmp_path)
    assert net.check() == []
    assert net.problems() == {}
    assert net.unsized() == ["NonZero_1", "Squeeze_2", "Gather_3", "Add_4"]
    labels = [node.operation.label for operator in net.unsized() for node in net.nodes(operator)]
    assert "NonZero (shape unknown)" in labels
    recording = net.preview_plan().recording
    (number,) = [number for number, label in enumerate(recording.nodes.label) if label.startswith("NonZero")]
    assert recording.type_text(number) == "?"
    assert short_type(recording, recording.nodes.type[number]) == "?"
    assert "Add (shape unknown)" in labels


def test_shapes_alone_do_not_decide(tmp_path: Path) -> None:
    """A plan for shapes is refused with the operator, its line, and what to give; also after runs with arrays."""
    net = reshaped(tmp_path)
    for _ in range(2):
        with pytest.raises(ex.FileError, match=r"'Reshape_2' \(Reshape\): shape depends on the net's inputs\n.*arrays"):
            net.plan((6,), (2,))
        net.run(np.zeros(6, np.float32), np.array([2, 3]))


def one(type: str, *names: str, **attributes: Any) -> NodeProto:
    return node(type, ["x", *names], ["y"], **attributes)


x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("operator", "values", "right"),
    [
        (one("Slice", "a", "b"), ([0, 1], [2, 3]), x[0:2, 1:3]),
        (one("Expand", "a"), ([2, 2, 3, 4],), np.broadcast_to(x, (2, 2, 3, 4))),
        (one("Tile", "a"), ([1, 2, 1],), np.tile(x, (1, 2, 1))),
        (one("Pad", "a"), ([0, 1, 0, 0, 0, 2],), np.pad(x, ((0, 0), (1, 0), (0, 2)))),
        (one("Squeeze", "a"), ([],), x),
        (one("Unsqueeze", "a"), ([0],), x[None]),
        (one("Split", "a", axis=1), ([3],), x),
        (one("ReduceSum", "a", keepdims=0), ([1],), x.sum(1)),
        (one("Resize", "", "", "a", mode="nearest"), ([2, 6, 4],), x.repeat(2, 1)),
        (one("CumSum", "a"), ([2],), x.cumsum(2)),
    ],
    ids=lambda value: value.op_type if isinstance(value, NodeProto) else "",
)
def test_sizes_axes_and_widths_as_values(tmp_path: Path, operator: NodeProto, values: Any, right: Any) -> None:
    """What earlier had to be a constant of the file is an input of the net."""
    names = [name for name in operator.input[1:] if name]
    arrays = {name: np.array(value, np.int64) for name, value in zip(names, values, strict=True)}
    inputs = {"x": (FLOAT, x.shape), **{name: (INT64, array.shape) for name, array in arrays.items()}}
    net = opened(model([operator], inputs, ["y"]), tmp_path)
    np.testing.assert_array_equal(net.run({"x": x, **arrays}), right)


def test_lengths_that_follow_from_lengths(tmp_path: Path) -> None:
    """A value is asked for that has a shape which depends on another value: both are in the plan."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("ReduceMax", ["places"], ["last"], keepdims=0),
        node("Cast", ["last"], ["whole"], to=INT64),
        node("Range", ["zero", "whole", "one"], ["y"]),
    ]
    constants = {"zero": np.array(0), "one": np.array(1)}
    net = opened(model(nodes, {"x": (FLOAT, ["n"])}, ["y"], constants), tmp_path)
    for values in ([0, 0, 1, 1], [0, 5, 0, 0], [7, 0, 0, 2]):
        np.testing.assert_array_equal(net.run(np.array(values, np.float32)), np.arange(np.flatnonzero(values).max()))
    decisions = net.plan(np.array([0, 0, 1, 1], np.float32)).recording.decisions
    assert [entry.facts["operator"] for entry in decisions if entry.code == "computed_first"] == [
        "NonZero_1",
        "Range_4",
    ]


def test_a_condition_of_an_inner_graph(tmp_path: Path) -> None:
    """An inner graph computes with values of the net's inputs outside it."""
    branches = [
        helper.make_graph([node(type, ["x", "s"], [type])], type, [], [helper.make_empty_tensor_value_info(type)])
        for type in ("Reshape", "Expand")
    ]
    operator = node("If", ["which"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = {"x": (FLOAT, [1]), "s": (INT64, [2]), "which": (BOOL, [])}
    net = opened(model([operator], inputs, ["y"]), tmp_path)
    assert net.check() == []
    assert net.unsized() == ["If_1"]
    for which in (True, False):
        result = net.run(np.ones(1, np.float32), np.array([1, 1]), np.array(which))
        np.testing.assert_array_equal(result, np.ones((1, 1), np.float32))


@pytest.mark.spec("I-9")
def test_parts_of_what_is_known_are_known(tmp_path: Path) -> None:
    """A shape that follows from shapes by way of an operator of two results takes no computing before the plan."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Split", ["s"], ["a", "b"], num_outputs=2),
        node("Concat", ["b", "a"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"]),
    ]
    net = opened(model(nodes, {"x": (FLOAT, [2, 3])}, ["y"]), tmp_path)
    picture = np.zeros((2, 3), np.float32)
    assert net.run(picture).shape == (3, 2)
    assert net.unsized() == []
    assert "shape values" not in [stage.name for stage in net.plan(picture).recording.stages]
