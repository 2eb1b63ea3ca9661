"""If, Loop and Scan of ONNX files: inner graphs are run, recorded and compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, helper, numpy_helper

import explorer as ex
from explorer.cli import main
from tests.formats.onnx.models import BOOL, FLOAT, INT64, model, node, opened

X = np.linspace(-1, 2, 6, dtype="float32").reshape(2, 3)


def graph(
    nodes: list[NodeProto], inputs: list[str], outputs: list[str], constants: dict[str, Any] | None = None
) -> GraphProto:
    return helper.make_graph(
        nodes,
        "body",
        [helper.make_empty_tensor_value_info(name) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )


def choice(factor: float = 2.0) -> list[NodeProto]:
    """Return y = x · factor · w if the sum of x is positive, else −x; both branches have an initializer ``k``."""
    then = graph(
        [node("Mul", ["x", "k"], ["t"], "scale"), node("Mul", ["t", "w"], ["y1"])],
        [],
        ["y1"],
        {"k": np.float32(factor)},
    )
    other = graph([node("Mul", ["x", "k"], ["y2"], "turn")], [], ["y2"], {"k": np.float32(-1)})
    return [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other),
    ]


CONSTANTS = {"zero": np.float32(0), "w": np.array([1, 2, 3], "float32")}


@pytest.mark.parametrize("sign", [1, -1])
def test_if_runs_the_branch_selected_at_run_time(sign: int, tmp_path: Path) -> None:
    net = opened(model(choice(), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path)
    assert net.check() == []
    expected = sign * X * 2 * CONSTANTS["w"] if sign > 0 else -sign * X
    np.testing.assert_allclose(net.run(sign * X), expected, rtol=1e-6)


@pytest.mark.spec("I-5", "Q-5")
def test_operators_of_inner_graphs_have_the_names_of_their_operands(tmp_path: Path) -> None:
    net = opened(model(choice(), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path)
    recording = net.preview_plan().recording
    rows = {recording.scopes[row.scope].name: row for row in recording.operators}
    assert [name for name, _ in rows["choice"].parameters][:1] == ["cond"]
    for name in ("scale", "turn"):
        assert rows[name].parameters == (("A", 0), ("B", -1))
        ((formal, result),) = rows[name].results
        assert formal == "C"
        scope = recording.scopes[recording.nodes.scope[result]]
        assert scope.name == name
        assert recording.nodes.body[result] > 0
    # the first of two operators in a graph, whose result only the second reads
    inner = graph([node("Mul", ["x", "x"], ["m"], "square"), node("Neg", ["m"], ["y1"], "minus")], [], ["y1"], {})
    operators = [node("If", ["c"], ["y"], "choice", then_branch=inner, else_branch=inner)]
    chained = opened(model(operators, {"x": (FLOAT, (2,)), "c": (BOOL, ())}, ["y"]), tmp_path)
    recording = chained.preview_plan().recording
    results = {
        recording.scopes[row.scope].name: recording.nodes.operation[row.results[0][1]] for row in recording.operators
    }
    operations = {name: recording.operations[results[name]] for name in ("square", "minus")}
    assert operations == {"square": "multiply", "minus": "negative"}


def test_inner_graphs_are_recorded_with_their_captured_values(tmp_path: Path) -> None:
    net = opened(model(choice(), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path)
    recording = net.preview_plan().recording
    assert [body.name for body in recording.bodies] == ["", "choice", "then", "otherwise"]
    labels = [recording.nodes.label[each] for each in recording.bodies[1].inputs]
    assert labels == ["condition", "x", "scale.B", "w"] or {"condition", "x", "w"} <= {*labels}
    names = {
        recording.scopes[scope].name
        for scope, body in zip(recording.nodes.scope, recording.nodes.body, strict=True)
        if body == 2
    }
    assert "scale" in names


def test_nets_that_differ_inside_a_branch_are_different(tmp_path: Path) -> None:
    nets = [
        opened(model(choice(factor), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path, f"{factor}.onnx")
        for factor in (2.0, 3.0)
    ]
    first, second = (net.preview_plan().recording for net in nets)
    again = opened(model(choice(2.0), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path, "2.0.onnx")
    assert again.preview_plan().recording.fingerprint == first.fingerprint != second.fingerprint


def test_an_if_with_a_constant_condition_is_replaced_by_its_branch_in_a_box(tmp_path: Path) -> None:
    """The other branch may have another shape or unknown operators."""
    then = graph([node("Relu", ["x"], ["y1"])], [], ["y1"])
    other = graph([node("Mystery", ["x"], ["y2"], domain="d")], [], ["y2"])
    nodes = [node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)]
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], {"c": np.array([True])}), tmp_path)
    np.testing.assert_array_equal(net.run(X), np.maximum(X, 0))
    names = {scope.name for scope in net.preview_plan().recording.scopes}
    assert "then_branch: cond is always True" in names


def summing(**more: Any) -> GraphProto:
    """Return a loop body: total += x · number; total is stacked."""
    nodes = [
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("Mul", ["x", "f"], ["part"]),
        node("Add", ["total", "part"], ["after"]),
        node("Identity", ["after"], ["row"]),
        node("Identity", ["go"], ["go_on"]),
    ]
    return graph(nodes, ["i", "go", "total"], ["go_on", "after", "row"])


def test_a_loop_with_a_constant_trip_count_is_one_scan(tmp_path: Path) -> None:
    nodes = [node("Loop", ["n", "", "start"], ["last", "rows"], "turns", body=summing())]
    constants = {"n": np.int64(50), "start": np.zeros((2, 3), "float32")}
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["last", "rows"], constants), tmp_path)
    assert net.check() == []
    result = net.run(X)
    rows = np.cumsum([X * i for i in range(50)], axis=0)
    np.testing.assert_allclose(result["last"], rows[-1], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(result["rows"], rows, rtol=1e-5, atol=1e-5)
    assert [n.operation.name for n in net.preview_plan().planned.graph.live].count("scan") == 1


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_a_loop_with_its_trip_count_as_an_input(turns: int, tmp_path: Path) -> None:
    body = graph(
        [node("Add", ["total", "x"], ["after"]), node("Identity", ["go"], ["go_on"])],
        ["i", "go", "total"],
        ["go_on", "after"],
    )
    nodes = [node("Loop", ["n", "", "x"], ["last"], "turns", body=body)]
    net = opened(model(nodes, {"n": (INT64, ()), "x": (FLOAT, (2, 3))}, ["last"]), tmp_path)
    np.testing.assert_allclose(net.run({"n": np.int64(turns), "x": X}), X * (1 + turns), rtol=1e-6)


def test_a_loop_ended_by_its_body(tmp_path: Path) -> None:
    body = graph(
        [
            node("Add", ["total", "total"], ["after"]),
            node("ReduceSum", ["after"], ["s"], keepdims=0),
            node("Less", ["s", "limit"], ["go_on"]),
        ],
        ["i", "go", "total"],
        ["go_on", "after"],
        {"limit": np.float32(100)},
    )
    nodes = [node("Loop", ["", "go0", "x"], ["last"], "turns", body=body)]
    net = opened(model(nodes, {"go0": (BOOL, ()), "x": (FLOAT, (2, 3))}, ["last"]), tmp_path)
    expected = X
    while expected.sum() < 100:
        expected = expected * 2
    np.testing.assert_allclose(net.run({"go0": np.bool_(True), "x": X}), expected, rtol=1e-6)
    np.testing.assert_allclose(net.run({"go0": np.bool_(False), "x": X}), X)


def test_a_loop_with_growing_values_is_unrolled(tmp_path: Path) -> None:
    body = graph(
        [node("Concat", ["total", "x"], ["after"], axis=0), node("Identity", ["go"], ["go_on"])],
        ["i", "go", "total"],
        ["go_on", "after"],
    )
    nodes = [node("Loop", ["n", "", "x"], ["last"], "turns", body=body)]
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["last"], {"n": np.int64(3)}), tmp_path)
    np.testing.assert_array_equal(net.run(X), np.concatenate([X] * 4))
    assert {"iteration 0", "iteration 2"} <= {scope.name for scope in net.preview_plan().recording.scopes}


def growing(limit: float | None) -> GraphProto:
    """Return a loop that appends a row each iteration, as decoders append tokens, until a sum exceeds the limit."""
    nodes = [node("Concat", ["total", "x"], ["after"], axis=0), node("ReduceSum", ["after"], ["sum"], keepdims=0)]
    if limit is None:
        nodes.append(node("Identity", ["go"], ["go_on"]))
    else:
        nodes.append(node("Less", ["sum", "limit"], ["go_on"]))
    return graph(nodes, ["i", "go", "total"], ["go_on", "after", "sum"], {"limit": np.float32(limit or 0)})


@pytest.mark.parametrize(("limit", "kept"), [(None, 4), (7.0, 2)])
def test_a_loop_with_growing_values_and_a_run_time_trip_count(limit: float | None, kept: int, tmp_path: Path) -> None:
    nodes = [node("Loop", ["n", "", "x"], ["last", "sums"], "turns", body=growing(limit))]
    net = opened(model(nodes, {"n": (INT64, ()), "x": (FLOAT, (2, 3))}, ["last", "sums"]), tmp_path)
    assert X.sum() == 3
    for asked in (4, 1, 0, 4):
        turns = min(asked, kept)
        results = net.run(np.array(asked), X)
        np.testing.assert_array_equal(results["last"], np.concatenate([X] * (1 + turns)))
        np.testing.assert_allclose(results["sums"], 3 * np.arange(2, 2 + turns, dtype="float32"), rtol=1e-6)


def test_a_name_in_an_inner_graph_shadows_the_outer_one(tmp_path: Path) -> None:
    """Files may give a body's outputs the operator's output names, which the body does not read."""
    inner = graph([node("Mul", ["x", "k"], ["y"])], [], ["y"], {"k": np.float32(3)})
    then = graph([node("If", ["c"], ["y"], "inner", then_branch=inner, else_branch=inner)], [], ["y"])
    other = graph([node("Neg", ["x"], ["y"])], [], ["y"])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "k"], ["c"]),
        node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other),
    ]
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], {"k": np.float32(0)}), tmp_path)
    np.testing.assert_array_equal(net.run(X), 3 * X)
    np.testing.assert_array_equal(net.run(-X), X)


def test_stacked_outputs_with_a_data_dependent_trip_count(tmp_path: Path) -> None:
    """A first run without stacks counts the iterations, and the plan reports it."""
    nodes = [node("Loop", ["n", "", "x"], ["last", "rows"], "turns", body=summing())]
    net = opened(model(nodes, {"n": (INT64, ()), "x": (FLOAT, (2, 3))}, ["last", "rows"]), tmp_path)
    assert net.check() == []
    assert net.unsized() == ["turns"]
    for turns in (3, 1, 3):
        results = net.run(np.array(turns), X)
        constant = opened(
            model(nodes, {"x": (FLOAT, (2, 3))}, ["last", "rows"], {"n": np.array(turns)}), tmp_path, "constant.onnx"
        ).run(X)
        np.testing.assert_array_equal(results["last"], constant["last"])
        np.testing.assert_array_equal(results["rows"], constant["rows"])
        assert len(results["rows"]) == turns
    (decision,) = [row for row in net.plan(np.array(3), X).recording.decisions if row.code == "computed_first"]
    assert (decision.facts["value"], decision.facts["text"]) == ("the number of iterations", "3")


def test_branches_with_different_shapes(tmp_path: Path) -> None:
    """Only the selected branch is recorded, so that the other one need not match the inputs."""
    branches = {
        "then_branch": graph([node("ReduceSum", ["x"], ["s"], keepdims=0)], [], ["s"]),
        "else_branch": graph([node("Squeeze", ["x", "first"], ["q"])], [], ["q"]),
    }
    inputs = {"which": (BOOL, ()), "x": (FLOAT, (2, 3))}
    chosen = node("If", ["which"], ["y"], "chosen", **branches)
    net = opened(model([chosen], inputs, ["y"], {"first": np.array([0])}), tmp_path)
    assert net.check() == []
    assert net.unsized() == ["chosen"]
    np.testing.assert_allclose(net.run(np.array(True), X), X.sum(), rtol=1e-6)
    with pytest.raises(ex.FileError, match="each removed axis must have size 1"):
        net.run(np.array(False), X)
    np.testing.assert_allclose(net.run(np.array(True), X), X.sum(), rtol=1e-6)


@pytest.mark.parametrize("directions", [(0, 0), (1, 1), (1, 0), (0, 1)])
@pytest.mark.parametrize("axes", [(0, 0), (1, 1)])
def test_scans_in_all_directions_along_any_axis(
    directions: tuple[int, int], axes: tuple[int, int], tmp_path: Path
) -> None:
    body = graph(
        [node("Add", ["h", "e"], ["h2"]), node("Mul", ["h2", "two"], ["o"])],
        ["h", "e"],
        ["h2", "o"],
        {"two": np.float32(2)},
    )
    nodes = [
        node(
            "Scan",
            ["h0", "x"],
            ["last", "rows"],
            "steps",
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[axes[0]],
            scan_output_axes=[axes[1]],
            scan_input_directions=[directions[0]],
            scan_output_directions=[directions[1]],
        )
    ]
    size = X.shape[1 - axes[0]]
    net = opened(model(nodes, {"h0": (FLOAT, (size,)), "x": (FLOAT, (2, 3))}, ["last", "rows"]), tmp_path)
    assert net.check() == []
    result = net.run({"h0": np.ones(size, "float32"), "x": X})
    elements = np.moveaxis(X, axes[0], 0)[:: -1 if directions[0] else 1]
    sums = 1 + np.cumsum(elements, axis=0)
    np.testing.assert_allclose(result["last"], sums[-1], rtol=1e-6)
    stacked = (2 * sums)[:: -1 if directions[1] else 1]
    np.testing.assert_allclose(result["rows"], np.moveaxis(stacked, 0, axes[1]), rtol=1e-6)


def test_nested_inner_graphs(tmp_path: Path) -> None:
    inner = graph([node("Add", ["total", "x"], ["a"])], [], ["a"])
    skip = graph([node("Identity", ["total"], ["b"])], [], ["b"])
    body = graph(
        [
            node("Mod", ["i", "two"], ["r"]),
            node("Cast", ["r"], ["odd"], to=BOOL),
            node("If", ["odd"], ["after"], "odd only", then_branch=inner, else_branch=skip),
            node("Identity", ["go"], ["go_on"]),
        ],
        ["i", "go", "total"],
        ["go_on", "after"],
        {"two": np.int64(2)},
    )
    nodes = [node("Loop", ["n", "", "x"], ["last"], "turns", body=body)]
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["last"], {"n": np.int64(5)}), tmp_path)
    np.testing.assert_allclose(net.run(X), X * 3, rtol=1e-6)


def test_the_error_of_an_unknown_operator_in_an_inner_graph_contains_its_name(tmp_path: Path) -> None:
    nodes = choice()
    nodes[2].attribute[0].g.node[0].op_type = "Mystery"
    net = opened(model(nodes, {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path)
    assert "Mystery" in "\n".join(net.check())
    with pytest.raises(ex.FileError, match=r"choice.*\n?.*Mystery"):
        net.run(X)


def test_saving_a_net_with_control_flow_raises_an_error_and_writes_nothing(tmp_path: Path) -> None:
    net = opened(model(choice(), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path)
    with pytest.raises(ex.OperandError, match="must have no control flow"):
        net.save(tmp_path / "net.json")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_recordings_of_inner_graphs_are_compared(tmp_path: Path) -> None:
    """A weight or a number inside a branch is a difference; the same file twice has none."""
    nets = [
        opened(model(choice(factor), {"x": (FLOAT, (2, 3))}, ["y"], CONSTANTS), tmp_path, name)
        for factor, name in ((2.0, "a.onnx"), (2.0, "b.onnx"), (3.0, "c.onnx"))
    ]
    first, same, other = (net.preview_plan() for net in nets)
    assert "the same graph" in str(first.compare(same))
    assert "reads 2 → 3" in first.compare(other).text(nodes=True)


def test_loops_recorded_at_run_time_differ_only_by_their_contents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Operators, numbers, weights and arguments count even with an unknown trip count."""

    def plan(name: str, body: GraphProto) -> Any:
        nodes = [node("Loop", ["n", "", "x"], ["last", "rows"], "turns", body=body)]
        net = opened(model(nodes, {"n": (INT64, ()), "x": (FLOAT, (2, 3))}, ["last", "rows"]), tmp_path, name)
        assert net.unsized() == ["turns"]
        return net.preview_plan()

    def turn(operator: str = "Mul", weight: float = 2.0, **attributes: Any) -> GraphProto:
        nodes = [
            node("Identity", ["go"], ["go_on"]),
            node(operator, ["total", "w"], ["after"]),
            node("ReduceSum", ["after"], ["row"], **attributes),
        ]
        body = graph(nodes, ["i", "go", "total"], ["go_on", "after", "row"])
        body.initializer.append(numpy_helper.from_array(np.full((2, 3), weight, np.float32), "w"))
        return body

    first = plan("a.onnx", turn())
    assert "the same graph" in str(first.compare(plan("b.onnx", turn())))
    for other in (turn("Add"), turn(keepdims=0)):
        assert "the same graph" not in str(first.compare(plan("c.onnx", other)))
    plan("d.onnx", turn(weight=3.0))
    assert main(["diff", str(tmp_path / "a.onnx"), str(tmp_path / "d.onnx")]) == 1
    assert "weights: 0 with the same values, 1 with others" in capsys.readouterr().out


def body_labels(net: ex.Net, name: str) -> list[str]:
    """Return the labels of the nodes in a named body of a net that has not run."""
    recording = net.preview_plan().recording
    (number,) = [number for number, body in enumerate(recording.bodies) if body.name == name]
    return [recording.label(node) for node, body in enumerate(recording.nodes.body) if body == number]


def test_a_loop_with_an_input_trip_count_shows_its_body_before_a_run(tmp_path: Path) -> None:
    inputs = {"n": (INT64, ()), "x": (FLOAT, (2, 3))}
    stacked = node("Loop", ["n", "", "x"], ["last", "rows"], "turns", body=summing())
    net = opened(model([stacked], inputs, ["last", "rows"]), tmp_path)
    assert {"multiply", "add", "logical_and"} <= {*body_labels(net, "turns")}
    grown = graph(
        [node("Identity", ["go"], ["on"]), node("Concat", ["s", "x"], ["t"], axis=0)], ["i", "go", "s"], ["on", "t"]
    )
    growing = node("Loop", ["n", "", "x"], ["y"], "growing", body=grown)
    net = opened(model([growing, node("Relu", ["y"], ["z"])], inputs, ["z"]), tmp_path)
    assert net.unsized() == ["growing", "Relu_2"]
    assert "concatenate" in body_labels(net, "growing")
    np.testing.assert_array_equal(net.run(np.array(2), X), np.maximum(np.concatenate([X] * 3), 0))
    row = graph(
        [node("Identity", ["go"], ["on"]), node("SequenceInsert", ["s", "x"], ["t"])], ["i", "go", "s"], ["on", "t"]
    )
    nodes = [
        node("SequenceEmpty", [], ["e"], dtype=FLOAT),
        node("Loop", ["n", "", "e"], ["y"], "members", body=row),
        node("ConcatFromSequence", ["y"], ["z"], axis=0),
    ]
    net = opened(model(nodes, inputs, ["z"]), tmp_path)
    assert net.unsized() == ["members", "ConcatFromSequence_3"]
    assert body_labels(net, "members")
    np.testing.assert_array_equal(net.run(np.array(2), X), np.concatenate([X] * 2))


def test_matching_ones_of_branches_with_different_shapes_are_shown_before_a_run(tmp_path: Path) -> None:
    sums = graph([node("ReduceSum", ["x"], ["s"], keepdims=0)], [], ["s"])
    inputs = {"which": (BOOL, ()), "x": (FLOAT, (2, 3))}
    for other, labels in ((node("Tanh", ["x"], ["q"]), {"sum", "tanh"}), (node("Squeeze", ["x", "a"], ["q"]), {"sum"})):
        branches = {"then_branch": sums, "else_branch": graph([other], [], ["q"])}
        net = opened(
            model([node("If", ["which"], ["y"], "chosen", **branches)], inputs, ["y"], {"a": np.array([0])}), tmp_path
        )
        assert net.unsized() == ["chosen"]
        assert labels <= {*body_labels(net, "chosen")}
        assert net.run(np.array(True), X) == X.sum()


@pytest.mark.parametrize("known", [True, False])
def test_unread_outputs_of_a_branch_are_omitted(known: bool, tmp_path: Path) -> None:
    then = graph([node("Neg", ["x"], ["a"]), node("Abs", ["x"], ["b"])], [], ["a", "b"])
    other = graph([node("Abs", ["x"], ["c"]), node("Neg", ["x"], ["d"])], [], ["c", "d"])
    choose = node("If", ["flag"], ["y", ""], "choice", then_branch=then, else_branch=other)
    flag = {"flag": np.array(True)}
    inputs = {"x": (FLOAT, (2, 3))} | ({} if known else {"flag": (BOOL, ())})
    net = opened(model([choose], inputs, ["y"], flag if known else None), tmp_path)
    np.testing.assert_array_equal(net.run({"x": X} | ({} if known else flag)), -X)


def test_a_branch_with_too_few_outputs_raises_an_error(tmp_path: Path) -> None:
    then, other = graph([node("Neg", ["x"], ["a"])], [], ["a"]), graph([], [], [])
    choose = node("If", ["flag"], ["y"], "choice", then_branch=then, else_branch=other)
    net = opened(model([choose], {"x": (FLOAT, (2, 3)), "flag": (BOOL, ())}, ["y"]), tmp_path)
    (finding,) = net.check()
    assert "each branch of If must have an output for each output of the operator" in finding


@pytest.mark.spec("Q-9")
@pytest.mark.parametrize("name", ["renamed", "part", "total", "after"])
def test_operands_of_inner_graphs_are_renamed_and_rewired(name: str, tmp_path: Path) -> None:
    """The new name may be the name of a parameter or of an operand of the inner graph."""
    nodes = [
        node("Relu", ["a"], ["x"]),
        node("Loop", ["n", "", "start"], ["last", "rows"], "turns", body=summing()),
        node("If", ["c"], ["y"], "choice", then_branch=_half("x"), else_branch=_half("last")),
    ]
    constants = {"n": np.int64(3), "start": np.zeros((2, 3), "float32")}
    inputs = {"a": (FLOAT, (2, 3)), "c": (BOOL, ())}
    net = opened(model(nodes, inputs, ["last", "y"], constants), tmp_path)
    expected = net.run(X, np.array(True))
    net.rename("x", name)
    net.save(tmp_path / "renamed.onnx")
    for each in (net, ex.open(tmp_path / "renamed.onnx")):
        for key, value in each.run(X, np.array(True)).items():
            np.testing.assert_array_equal(value, expected[key])
    net.insert("Neg", name)
    negative = net.run(X, np.array(True))
    np.testing.assert_allclose(negative["last"], -expected["last"], rtol=1e-6)
    np.testing.assert_allclose(negative["y"], -expected["y"], rtol=1e-6)
    np.testing.assert_allclose(net.run(X, np.array(False))["y"], negative["last"] / 2, rtol=1e-6)


def _half(name: str) -> GraphProto:
    return graph([node("Mul", [name, "half"], ["t"])], [], ["t"], {"half": np.float32(0.5)})
