"""Sequences and optionals: tuples of expressions while a net is built, lists and None as a net's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import explorer as ex
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, model, node, opened

pytestmark = pytest.mark.spec("I-6", "I-9")
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def model_of(*nodes: Any, constants: dict[str, Any] | None = None, outputs: tuple[str, ...] = ("y",)) -> ModelProto:
    return model(nodes, {"x": (FLOAT, [5, 2])}, outputs, constants)


@pytest.mark.parametrize(
    ("split", "keepdims", "shapes"),
    [(None, 1, [(1, 2)] * 5), (None, 0, [(2,)] * 5), (2, 1, [(2, 2), (2, 2), (1, 2)]), ([4, 1], 0, [(4, 2), (1, 2)])],
)
def test_a_tensor_is_split_and_concatenated(tmp_path: Path, split: Any, keepdims: int, shapes: Any) -> None:
    """SplitToSequence splits an axis by lengths, by one length, or into elements; ConcatFromSequence joins them."""
    reads = ["x"] if split is None else ["x", "s"]
    nodes = [
        node("SplitToSequence", reads, ["q"], axis=0, keepdims=keepdims),
        node("SequenceAt", ["q", "last"], ["y"]),
        node("SequenceLength", ["q"], ["n"]),
        node("ConcatFromSequence", ["q"], ["z"], axis=0, new_axis=int(len(shapes[0]) == 1)),
    ]
    constants = {"last": np.int64(-1)} | ({} if split is None else {"s": np.int64(split)})
    net = opened(model_of(*nodes, constants=constants, outputs=("y", "n", "z")), tmp_path)
    assert net.check() == []
    results = net.run(X)
    assert results["n"] == len(shapes)
    np.testing.assert_array_equal(
        results["y"], X[-shapes[-1][0] :].reshape(shapes[-1]) if shapes[-1] != (2,) else X[-1]
    )
    np.testing.assert_array_equal(results["z"], X)


def test_members_are_inserted_and_erased_at_positions_from_either_end(tmp_path: Path) -> None:
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Abs", ["x"], ["b"]),
        node("SequenceEmpty", [], ["none"]),
        node("SequenceInsert", ["none", "x"], ["one"]),
        node("SequenceInsert", ["one", "a", "first"], ["two"]),  # a, x
        node("SequenceInsert", ["two", "b"], ["three"]),  # a, x, b
        node("SequenceErase", ["three", "middle"], ["rest"]),  # a, b
        node("ConcatFromSequence", ["rest"], ["y"], axis=1),
    ]
    net = opened(model_of(*nodes, constants={"first": np.int64(0), "middle": np.int64(-2)}), tmp_path)
    np.testing.assert_array_equal(net.run(X - 3), np.concatenate([3 - X, abs(X - 3)], 1))


def test_a_sequence_uses_no_memory_and_unused_elements_no_time(tmp_path: Path) -> None:
    """Unread elements are pruned like all other nodes."""
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Exp", ["x"], ["b"]),
        node("SequenceConstruct", ["a", "b"], ["q"]),
        node("SequenceAt", ["q", "first"], ["y"]),
    ]
    net = opened(model_of(*nodes, constants={"first": np.int64(0)}), tmp_path)
    (kernel,) = net.plan(X).recording.schedule.kernels
    assert len(kernel.nodes) == 1
    np.testing.assert_array_equal(net.run(X), -X)


@pytest.mark.parametrize(("reads", "has"), [(["x"], True), ([], False)])
def test_an_optional_is_its_value_or_none(tmp_path: Path, reads: list[str], has: bool) -> None:
    tensor = helper.make_tensor_type_proto(FLOAT, [5, 2])
    nodes = [
        node("Optional", reads, ["o"], **({} if has else {"type": tensor})),
        node("OptionalHasElement", ["o"], ["y"]),
    ]
    assert opened(model_of(*nodes), tmp_path).run(X) == has


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("SequenceAt", ["x", "p"], ["y"])], "input_sequence must be a sequence of tensors"),
        (
            [node("SequenceConstruct", ["x"], ["q"]), node("SequenceAt", ["q", "p"], ["y"])],
            "must be inside the sequence",
        ),
        (
            [node("SplitToSequence", ["x", "p"], ["q"]), node("SequenceAt", ["q", "p"], ["y"])],
            "must be inside the sequence",
        ),
        (
            [node("SplitToSequence", ["x", "s"], ["q"]), node("SequenceAt", ["q", "s"], ["y"])],
            "add up to the length of the axis",
        ),
        (
            [node("SequenceEmpty", [], ["q"]), node("ConcatFromSequence", ["q"], ["y"], axis=0)],
            "must have at least one element",
        ),
    ],
)
def test_other_than_sequences_raise_an_error(tmp_path: Path, nodes: list[Any], words: str) -> None:
    net = opened(model_of(*nodes, constants={"p": np.int64(3), "s": np.int64(0)}), tmp_path)
    with pytest.raises(ex.ExplorerError, match=words):
        net.run(X)


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, ["n", 2]))
OPTIONAL = helper.make_optional_type_proto(SEQUENCE)
A, B = X[:2], X[2:3] - 10


def net_of(folder: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], **constants: Any) -> Net:
    """Return a net whose inputs have these types."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_value_info(name, type_) for name, type_ in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return opened(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), folder)


def body(nodes: list[Any], inputs: list[str], outputs: list[str]) -> Any:
    return helper.make_graph(
        nodes, "body", *[[helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)]
    )


def test_a_net_accepts_and_returns_sequences_of_any_length(tmp_path: Path) -> None:
    """Sequences are lists of arrays with different lengths; each number of elements is planned once."""
    nodes = [
        node("Identity", ["q"], ["same"]),
        node("SequenceInsert", ["same", "x"], ["more"]),
        node("SequenceLength", ["more"], ["n"]),
        node("ConcatFromSequence", ["more"], ["all"], axis=0),
    ]
    net = net_of(
        tmp_path, nodes, {"q": SEQUENCE, "x": helper.make_tensor_type_proto(FLOAT, [5, 2])}, ["more", "n", "all"]
    )
    assert net.check() == []
    for members in ([A, B], [], [B]):
        results = net.run(members, X)
        assert [member.tolist() for member in results["more"]] == [member.tolist() for member in (*members, X)]
        assert results["n"] == len(members) + 1
        np.testing.assert_array_equal(results["all"], np.concatenate([*members, X]))
    assert net.plan([A, B], X).recording.schedule.kernels
    expressions = net.build([(1, 2), (3, 2)], (5, 2))
    assert [member.shape for member in expressions["more"]] == [(1, 2), (3, 2), (5, 2)]


def test_a_net_is_drawn_for_sequences_of_two_elements_and_reports_it(tmp_path: Path) -> None:
    net = net_of(tmp_path, [node("ConcatFromSequence", ["q"], ["y"], axis=0)], {"q": SEQUENCE}, ["y"])
    recording = net.preview_plan().recording
    assert [name for name in recording.nodes.label if name.startswith("q[")] == ["q[0]", "q[1]"]
    assert "q: 2 elements" in recording.title


@pytest.mark.parametrize("given", [None, [], [A, B]], ids=["absent", "empty", "two"])
def test_an_optional_input_is_none_or_its_value(tmp_path: Path, given: Any) -> None:
    """An absent optional is None, which is another plan than that of an empty sequence."""
    then = body([node("OptionalGetElement", ["o"], ["t"])], [], ["t"])
    otherwise = body([node("SequenceConstruct", ["c"], ["e"])], [], ["e"])
    nodes = [
        node("OptionalHasElement", ["o"], ["has"]),
        node("If", ["has"], ["y"], then_branch=then, else_branch=otherwise),
    ]
    results = net_of(tmp_path, nodes, {"o": OPTIONAL}, ["has", "y"], c=X).run(given)
    assert results["has"] == (given is not None)
    right = [X] if given is None else given
    assert [member.tolist() for member in results["y"]] == [member.tolist() for member in right]


def test_a_conditional_between_equal_containers_is_recorded(tmp_path: Path) -> None:
    """Branches with equal element types become one cond; for others the value decides while recording."""
    inputs = {
        "c": helper.make_tensor_type_proto(TensorProto.BOOL, []),
        "x": helper.make_tensor_type_proto(FLOAT, [5, 2]),
    }

    def branch(*members: str) -> Any:
        return body([node("Neg", ["x"], ["m"]), node("SequenceConstruct", [*members], ["s"])], [], ["s"])

    for other, kernels in ((("m", "x"), 1), (("m",), 0)):
        choice = node("If", ["c"], ["y"], then_branch=branch("x", "m"), else_branch=branch(*other))
        net = net_of(tmp_path, [choice], inputs, ["y"])
        for c in (True, False):
            right = [{"x": X, "m": -X}[name].tolist() for name in (("x", "m") if c else other)]
            assert [member.tolist() for member in net.run(np.array(c), X)] == right
        labels = net.plan(np.array(True), X).recording.nodes.label
        assert sum(label.startswith("If") for label in labels) == kernels


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_loop_collects_a_sequence(tmp_path: Path, count: int) -> None:
    turn = body(
        [
            node("Mul", ["x", "x"], ["m"]),
            node("SequenceInsert", ["before", "m"], ["after"]),
            node("Identity", ["go"], ["on"]),
        ],
        ["number", "go", "before"],
        ["on", "after"],
    )
    nodes = [node("SequenceEmpty", [], ["none"]), node("Loop", ["n", "", "none"], ["y"], body=turn)]
    inputs = {
        "n": helper.make_tensor_type_proto(TensorProto.INT64, []),
        "x": helper.make_tensor_type_proto(FLOAT, [5, 2]),
    }
    results = net_of(tmp_path, nodes, inputs, ["y"]).run(np.int64(count), X)
    assert [member.tolist() for member in results] == [(X * X).tolist()] * count


def test_a_loop_over_a_sequence_ends_with_its_condition(tmp_path: Path) -> None:
    """Without a limit, each iteration's condition is computed before the next iteration is recorded."""
    turn = body(
        [
            node("SequenceAt", ["q", "number"], ["m"]),
            node("SequenceInsert", ["before", "m"], ["after"]),
            node("ReduceMax", ["m"], ["largest"], keepdims=0),
            node("Less", ["largest", "limit"], ["on"]),
        ],
        ["number", "go", "before"],
        ["on", "after"],
    )
    nodes = [node("SequenceEmpty", [], ["none"]), node("Loop", ["", "yes", "none"], ["y"], body=turn)]
    net = net_of(tmp_path, nodes, {"q": SEQUENCE}, ["y"], yes=np.array(True), limit=np.float32(5))
    assert len(net.run([A, A, X, A])) == 3
    with pytest.raises(ex.ExplorerError, match="must be inside the sequence"):
        net.run([A, A])


@pytest.mark.parametrize(("given", "words"), [(X, "must be a list of arrays"), ([X[0]], "must be as the file says")])
def test_what_is_no_list_of_members_is_refused(tmp_path: Path, given: Any, words: str) -> None:
    net = net_of(tmp_path, [node("SequenceLength", ["q"], ["y"])], {"q": SEQUENCE}, ["y"])
    with pytest.raises(ex.ExplorerError, match=words):
        net.run(given)


def test_elements_without_a_recorded_shape_are_drawn_with_a_matching_one(tmp_path: Path) -> None:
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    net = net_of(tmp_path, [node("ConcatFromSequence", ["q"], ["y"], axis=2)], {"q": type_}, ["y"])
    assert net.check() == []
    assert len(net.example_shapes()["q"]) == 3


def test_a_net_with_sequences_is_written(tmp_path: Path) -> None:
    net = net_of(
        tmp_path, [node("SequenceInsert", ["q", "c"], ["y"])], {"q": OPTIONAL.optional_type.elem_type}, ["y"], c=X
    )
    net.save(tmp_path / "again.json")
    assert [m.tolist() for m in ex.open(tmp_path / "again.json").run([A])] == [A.tolist(), X.tolist()]
