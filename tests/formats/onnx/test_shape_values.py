"""Data-dependent shapes: the values that determine them are computed first, and plans are cached for each outcome."""

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
    """Return a net that returns the nonzero elements of x, doubled."""
    nodes = [
        node("NonZero", ["x"], ["places"]),
        node("Squeeze", ["places", "first"], ["row"]),
        node("Gather", ["x", "row"], ["picked"]),
        node("Add", ["picked", "picked"], ["y"]),
    ]
    return opened(model(nodes, {"x": (FLOAT, ["n"])}, ["y"], {"first": np.array([0])}), folder)


def reshaped(folder: Path) -> Net:
    """Return a net that reshapes x to |s|."""
    nodes = [node("Abs", ["s"], ["sizes"]), node("Reshape", ["x", "sizes"], ["y"])]
    return opened(model(nodes, {"x": (FLOAT, [6]), "s": (INT64, [2])}, ["y"]), folder)


def test_a_result_with_a_data_dependent_length(tmp_path: Path) -> None:
    """The number of nonzero elements may differ between runs."""
    net = chosen(tmp_path)
    for values in ([0, 1, 2], [3, 0, 5], [0, 0, 0], [1, 1, 1], [0, 1, 2]):
        x = np.array(values, np.float32)
        np.testing.assert_array_equal(net.run(x), 2 * x[x != 0])


def test_a_shape_computed_from_an_input(tmp_path: Path) -> None:
    """Reshape reads sizes computed from the net's input, with all executors and in inner graphs."""
    net, x = reshaped(tmp_path), np.arange(6, dtype=np.float32)
    for sizes in ((2, -3), (-3, -2), (6, 1), (1, 6), (-6, 1)):
        for executor in ("simple", "dag", "async"):
            result = net.run(x, np.array(sizes), executor=executor)
            np.testing.assert_array_equal(result, x.reshape(np.abs(sizes)))


def test_plans_are_cached_for_the_values_that_determine_shapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run with the same shapes builds and plans nothing."""
    net = chosen(tmp_path)
    net.run(np.array([0, 1, 2], np.float32))
    built = []
    build = type(net.session.builder).build
    monkeypatch.setattr(type(net.session.builder), "build", lambda *a, **k: built.append(1) or build(*a, **k))
    np.testing.assert_array_equal(net.run(np.array([4, 0, 3], np.float32)), [8, 6])
    assert not built
    np.testing.assert_array_equal(net.run(np.array([4, 0, 0], np.float32)), [8])
    assert built


def test_the_plan_reports_what_was_computed_first(tmp_path: Path) -> None:
    """A stage names each value that determined a shape and counts the operations for it."""
    net = reshaped(tmp_path)
    plan = net.plan(np.zeros(6, np.float32), np.array([2, -3]))
    (stage,) = [stage for stage in plan.recording.stages if stage.name == "shape values"]
    (decision,) = [entry for entry in plan.recording.decisions if entry.code == "computed_first"]
    assert stage.purpose.startswith("Report the values that were computed before planning")
    assert decision.facts == {"count": 1, "value": "shape", "operator": "Reshape_2", "text": "[2, 3]"}
    assert "1 operation was computed before the plan was built" in plan.explain()
    plan.eval()
    assert len(decision.subjects) == 1


def test_without_values_the_net_is_drawn_without_problems(tmp_path: Path) -> None:
    """check() finds nothing; operators after the unknown shape are drawn with the reason for it."""
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


def test_a_plan_for_shapes_only_raises_an_error(tmp_path: Path) -> None:
    """The error has the operator, its line and what to pass, even after runs with arrays."""
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
def test_sizes_axes_and_widths_as_inputs(tmp_path: Path, operator: NodeProto, values: Any, right: Any) -> None:
    """Previously these had to be constants of the file."""
    names = [name for name in operator.input[1:] if name]
    arrays = {name: np.array(value, np.int64) for name, value in zip(names, values, strict=True)}
    inputs = {"x": (FLOAT, x.shape), **{name: (INT64, array.shape) for name, array in arrays.items()}}
    net = opened(model([operator], inputs, ["y"]), tmp_path)
    np.testing.assert_array_equal(net.run({"x": x, **arrays}), right)


def test_a_data_dependent_shape_depends_on_another_one(tmp_path: Path) -> None:
    """Both determining values are in the plan."""
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


def test_an_inner_graph_reads_values_that_determine_shapes(tmp_path: Path) -> None:
    """They are computed from inputs of the surrounding net."""
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
def test_parts_of_known_shapes_are_known(tmp_path: Path) -> None:
    """A shape computed from shapes through an operator with two results needs no computation before the plan."""
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
