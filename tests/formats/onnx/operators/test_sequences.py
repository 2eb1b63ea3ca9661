"""Sequences and optionals: tuples of expressions while a net is built; what is known only at a run is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, helper

import explorer as ex
from tests.formats.onnx.models import FLOAT, model, node, opened

pytestmark = pytest.mark.spec("I-6", "I-9")
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def made(*nodes: Any, constants: dict[str, Any] | None = None, outputs: tuple[str, ...] = ("y",)) -> ModelProto:
    return model(nodes, {"x": (FLOAT, [5, 2])}, outputs, constants)


@pytest.mark.parametrize(
    ("split", "keepdims", "shapes"),
    [(None, 1, [(1, 2)] * 5), (None, 0, [(2,)] * 5), (2, 1, [(2, 2), (2, 2), (1, 2)]), ([4, 1], 0, [(4, 2), (1, 2)])],
)
def test_a_tensor_is_split_and_joined_again(tmp_path: Path, split: Any, keepdims: int, shapes: Any) -> None:
    """SplitToSequence cuts an axis by lengths, by one length, or to single elements; ConcatFromSequence joins them."""
    reads = ["x"] if split is None else ["x", "s"]
    nodes = [
        node("SplitToSequence", reads, ["q"], axis=0, keepdims=keepdims),
        node("SequenceAt", ["q", "last"], ["y"]),
        node("SequenceLength", ["q"], ["n"]),
        node("ConcatFromSequence", ["q"], ["z"], axis=0, new_axis=int(len(shapes[0]) == 1)),
    ]
    constants = {"last": np.int64(-1)} | ({} if split is None else {"s": np.int64(split)})
    net = opened(made(*nodes, constants=constants, outputs=("y", "n", "z")), tmp_path)
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
    net = opened(made(*nodes, constants={"first": np.int64(0), "middle": np.int64(-2)}), tmp_path)
    np.testing.assert_array_equal(net.run(X - 3), np.concatenate([3 - X, abs(X - 3)], 1))


def test_a_sequence_takes_no_memory_and_its_unused_members_no_time(tmp_path: Path) -> None:
    """Members that nobody reads are pruned, as everything else is."""
    nodes = [
        node("Neg", ["x"], ["a"]),
        node("Exp", ["x"], ["b"]),
        node("SequenceConstruct", ["a", "b"], ["q"]),
        node("SequenceAt", ["q", "first"], ["y"]),
    ]
    net = opened(made(*nodes, constants={"first": np.int64(0)}), tmp_path)
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
    assert opened(made(*nodes), tmp_path).run(X) == has


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("SequenceAt", ["x", "p"], ["y"])], "input_sequence must be a sequence of tensors"),
        ([node("SequenceConstruct", ["x"], ["q"]), node("SequenceAt", ["q", "p"], ["y"])], "must lie in the sequence"),
        (
            [node("SplitToSequence", ["x", "p"], ["q"]), node("SequenceAt", ["q", "p"], ["y"])],
            "must lie in the sequence",
        ),
        (
            [node("SplitToSequence", ["x", "s"], ["q"]), node("SequenceAt", ["q", "s"], ["y"])],
            "sum up to that of the axis",
        ),
        ([node("SequenceConstruct", ["x"], ["y"])], "an output of a net must be a tensor"),
        (
            [node("SequenceEmpty", [], ["q"]), node("ConcatFromSequence", ["q"], ["y"], axis=0)],
            "must be a member or more",
        ),
    ],
)
def test_what_is_no_sequence_is_refused_by_its_rule(tmp_path: Path, nodes: list[Any], words: str) -> None:
    net = opened(made(*nodes, constants={"p": np.int64(3), "s": np.int64(0)}), tmp_path)
    with pytest.raises(ex.ExplorerError, match=words):
        net.run(X)


def test_a_sequence_that_is_an_input_is_refused_by_name(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [node("SequenceLength", ["q"], ["y"])],
        "graph",
        [helper.make_tensor_sequence_value_info("q", FLOAT, None)],
        [helper.make_empty_tensor_value_info("y")],
    )
    net = opened(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path)
    assert [unknown.type for unknown in net.unknown()] == ["SequenceLength (of a sequence)"]
