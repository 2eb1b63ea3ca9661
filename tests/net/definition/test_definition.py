"""Net definitions: derived properties, errors, and the order of operators."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.core.errors import FileError, OperandError, UnknownNameError
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, WeightReference


def op(name: str, inputs: str = "", outputs: str = "", line: int = 0) -> OperatorDefinition:
    return OperatorDefinition("relu", name, tuple(inputs.split()), tuple(outputs.split()), line=line)


def test_blobs_know_their_producer_readers_and_type() -> None:
    net = NetDefinition.of(
        "n",
        [op("f", "x x", "y"), op("g", "x y", "z w")],
        ["x"],
        ["z", "x"],
        {"x": BlobType((None, "n", 3), "float32")},
    )
    assert net.blob("x").producer is None
    assert net.blob("x").consumers == ("f", "g")
    assert (net.blob("x").shape, net.blob("x").dtype) == ((None, "n", 3), "float32")
    assert (net.blob("y").producer, net.blob("y").consumers, net.blob("y").shape) == ("f", ("g",), None)
    assert net.blob("w").consumers == ()
    assert net.operator("g").inputs == ("x", "y")


def test_errors_of_unknown_names_list_similar_ones() -> None:
    net = NetDefinition.of("n", [op("conv1", "x", "y")], ["x"], ["y"])
    with pytest.raises(UnknownNameError, match="conv1"):
        net.operator("conv")
    with pytest.raises(UnknownNameError, match="known: x, y"):
        net.blob("z")
    with pytest.raises(UnknownNameError, match="weight of operator 'conv1'"):
        net.weight("conv1", "bias")


@pytest.mark.parametrize(
    ("operators", "outputs", "words"),
    [
        ([op("f", "x", "y", 3), op("f", "x", "z", 4)], "y", ["'f'", "line 3", "line 4"]),
        ([op("f", "x", "y", 3), op("g", "x", "y", 4)], "y", ["'g'", "'y'", "'f' (line 3)", "line 4"]),
        ([op("f", "x", "x", 3)], "x", ["'f'", "'x'", "an input of the net", "line 3"]),
        ([op("f", "x q", "y", 3)], "y", ["'f'", "'q'", "nothing", "line 3"]),
        ([op("f", "x", "y", 3)], "q", ["'q'", "nothing"]),
    ],
)
def test_the_error_of_an_invalid_graph_contains_operator_blob_and_line(
    operators: list[OperatorDefinition], outputs: str, words: list[str]
) -> None:
    with pytest.raises(FileError) as error:
        NetDefinition.of("n", operators, ["x"], [outputs], source="n.param")
    assert [word for word in [*words, "n.param", "rule:", "fix:"] if word not in str(error.value)] == []
    with pytest.raises(OperandError):
        NetDefinition.of("n", operators, ["x"], [outputs])


def test_an_input_listed_twice_raises_an_error() -> None:
    with pytest.raises(OperandError, match="'x' is an input twice"):
        NetDefinition.of("n", [], ["x", "x"], [])


def test_the_error_of_a_cycle_contains_its_operators_and_lines() -> None:
    operators = [op("a", "x", "p", 3), op("b", "p s", "q", 4), op("c", "q", "r", 5), op("d", "r", "s", 6)]
    with pytest.raises(FileError) as error:
        NetDefinition.of("n", [*operators, op("e", "s", "t", 7)], ["x"], ["t"], source="n.param")
    for word in ("'b' (line 4) reads 's'", "'d' (line 6) reads 'r'", "'c' (line 5) reads 'q'"):
        assert word in error.value.given
    assert "'a'" not in error.value.given
    assert "'e'" not in error.value.given


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_order_respects_every_blob_and_keeps_a_file_that_does(size: int, chance: random.Random) -> None:
    operators = []
    for index in range(size):
        reads = " ".join(f"b{chance.randrange(index)}" for _ in range(chance.randint(0, 3) if index else 0)) or "x"
        operators.append(op(f"o{index}", reads, f"b{index}"))
    net = NetDefinition.of("n", operators, ["x"], [f"b{size - 1}"])
    assert net.topological_order == tuple(operators)
    chance.shuffle(operators)
    shuffled = NetDefinition.of("n", operators, ["x"], [f"b{size - 1}"])
    done = {"x"}
    for operator in shuffled.topological_order:
        assert done.issuperset(operator.inputs)
        done.update(operator.outputs)
    assert len(done) == size + 1
    assert {name: blob.producer for name, blob in shuffled.blobs.items()} == {
        name: blob.producer for name, blob in net.blobs.items()
    }


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_long_chain_of_operators_in_reverse_is_sorted(count: int) -> None:
    operators = [op(f"o{index}", f"b{index}", f"b{index + 1}") for index in reversed(range(count))]
    net = NetDefinition.of("n", operators, ["b0"], [f"b{count}"])
    assert net.topological_order == tuple(reversed(operators))


def test_a_weight_must_have_the_declared_shape() -> None:
    reference = WeightReference("conv.weight", (2, 3), "float32")
    conv = replace(op("conv", "x", "y"), weights={"weight": reference})
    net = NetDefinition.of("n", [conv], ["x"], ["y"], weights={"conv.weight": np.ones((2, 3), np.float32)})
    assert net.weight("conv", "weight").sum() == 6
    with pytest.raises(OperandError, match=r"shape \(6,\)"):
        replace(net, weights={"conv.weight": np.ones(6)}).weight("conv", "weight")


def test_lines_and_source_are_not_compared() -> None:
    one = NetDefinition.of("n", [op("f", "x", "y", 3)], ["x"], ["y"], source="a.param")
    other = NetDefinition.of("n", [op("f", "x", "y", 9)], ["x"], ["y"])
    assert one == other
    assert one != NetDefinition.of("n", [op("g", "x", "y", 3)], ["x"], ["y"])
