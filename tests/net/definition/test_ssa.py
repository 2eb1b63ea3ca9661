"""Blobs that are written several times: which version a name means, and errors about versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from explorer.core.errors import FileError, OperandError, UnknownNameError
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition
from explorer.net.definition.ssa import split_name
from tests.support.refusals import refused


def op(name: str, inputs: str = "", outputs: str = "", line: int = 0) -> OperatorDefinition:
    return OperatorDefinition("Sum", name, tuple(inputs.split()), tuple(outputs.split()), line=line)


def program(*operators: OperatorDefinition, outputs: str = "x", source: str = "") -> NetDefinition:
    return NetDefinition.of("n", operators, ["x"], outputs.split(), source=source, dialect="explorer", rewrites=True)


@pytest.mark.spec("C-9", "I-2")
def test_every_version_of_a_blob_is_a_separate_value() -> None:
    """A rewritten blob has versions `x@0`, `x@1`, …, each with its producer and readers."""
    net = program(op("a", "x", "x"), op("b", "x x", "y"), op("c", "x y", "x"))
    assert [(blob.name, blob.blob, blob.version, blob.producer, blob.consumers) for blob in net.versions("x")] == [
        ("x@0", "x", 0, None, ("a",)),
        ("x@1", "x", 1, "a", ("b", "c")),
        ("x@2", "x", 2, "c", ()),
    ]
    assert list(net.blobs) == ["x@0", "x@1", "x@2", "y"]
    assert net.blob("x").name == "x@2"
    assert net.blob("x@1").producer == "a"
    assert net.input("x").name == "x@0"
    assert [(o.inputs, o.outputs) for o in net.ssa.operators] == [
        (("x@0",), ("x@1",)),
        (("x@1", "x@1"), ("y",)),
        (("x@1", "y"), ("x@2",)),
    ]
    assert (net.ssa.inputs, net.ssa.outputs) == (("x@0",), ("x@2",))
    assert net.ssa.ssa is net.ssa
    assert net.history("x").split("\n")[2].strip() == "x@2: written by 'c', read by nothing"


@pytest.mark.spec("C-9")
def test_a_program_runs_in_order_so_that_nothing_is_overwritten_too_early() -> None:
    """A program with rewrites is not reordered, even if a reader and a later writer share no other edge."""
    net = program(op("first", "x", "a"), op("read", "a", "b"), op("over", "x", "a"), op("last", "a b", "x"))
    assert [operator.name for operator in net.topological_order] == ["first", "read", "over", "last"]
    assert net.ssa.operator("last").inputs == ("a@1", "b")
    assert net.ssa.operator("read").inputs == ("a@0",)


@pytest.mark.spec("C-9")
def test_only_a_plain_number_after_the_at_sign_is_a_version() -> None:
    """A version has one spelling, so other names with the sign are names of blobs."""
    for name in ("x@01", "x@", "x@1a", "@1", "x@1234567890"):
        net = program(op("a", "x", name), op("b", name, "y"), outputs="y")
        assert net.blob(name).producer == "a"
        assert split_name(name) is None
    assert split_name("x@1@10") == ("x@1", 10)


@pytest.mark.spec("C-9")
def test_reading_an_overwritten_version_raises_an_error_with_its_history() -> None:
    """The history lists who wrote and read every version; only the current version may be named."""
    assert program(op("a", "x@0", "x"), op("b", "x@1", "y"), outputs="x@1 y").ssa.outputs == ("x@1", "y")
    with pytest.raises(FileError) as error:
        program(op("a", "x", "x", 3), op("late", "x@0", "y", 4), source="n.json")
    for words in ("n.json, line 4", "'late' reads x@0", "overwritten", "x@0: an input", "x@1: written by 'a'", "Copy("):
        assert words in str(error.value)
    with pytest.raises(OperandError, match=r"'early' reads x@1, which is not written yet"):
        program(op("early", "x@1", "y"), op("a", "x", "x"))
    with pytest.raises(OperandError, match=r"returns x@0, which is overwritten"):
        program(op("a", "x", "x"), outputs="x@0")


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ([op("a", "y", "x"), op("b", "x", "y")], r"'a' reads 'y', which operator 'b' writes only later\n.*order"),
        ([op("a", "xx", "x")], r"'a' reads 'xx', which nothing produces(.|\n)*near names: x"),
        ([op("a", "x", "y y")], r"'a' writes 'y' twice"),
        ([op("a", "x", "x x")], r"'a' writes 'x' twice"),
        ([op("a", "x", "x@1")], r"'a' writes 'x@1'(.|\n)*write 'x'"),
        ([op("a", "x", "y"), op("a", "x", "z")], r"'a' is used twice"),
    ],
)
def test_an_invalid_program_raises_an_error(operators: list[OperatorDefinition], words: str) -> None:
    with pytest.raises(OperandError, match=words):
        program(*operators)


def test_versions_are_found_by_name_and_unknown_ones_list_them() -> None:
    net = program(op("a", "x", "x"))
    assert net.has_blob("x")
    assert net.has_blob("x@1")
    assert not net.has_blob("x@2")
    with pytest.raises(UnknownNameError, match=r"x@0: an input of the net(.|\n)*x@1: written by 'a'"):
        net.blob("x@2")


def test_a_versioned_name_cannot_be_an_input_or_output() -> None:
    """It belongs to a written blob, so that no input and no operator's output can have it."""
    for name in ("x@0", "x@1"):
        with pytest.raises(OperandError, match=f"an input is named '{name}'"):
            NetDefinition.of("n", [], [name], [name], dialect="explorer", rewrites=True)
    assert NetDefinition.of("n", [], ["x@1"], ["x@1"]).inputs == ("x@1",)


@pytest.mark.spec("C-9", "I-14")
def test_a_net_is_cut_at_one_of_two_versions() -> None:
    """The plain name is ambiguous as an input."""
    net = ex.Net("n")
    net.input("x", (2,))
    net.Relu("x", "x")
    net.Tanh("x", "y")
    net.output("y")
    with pytest.raises(OperandError, match="'x' as an input of the cut net means 2 values"):
        net.cut(["x"], ["y"])
    x = np.array([-1.0, 2.0], np.float32)
    np.testing.assert_allclose(net.cut(["x@1"], ["y"]).run(x), np.tanh(x), rtol=1e-6)
    np.testing.assert_allclose(net.cut(["x@0"], ["y"]).run(x), np.tanh(np.maximum(x, 0)), rtol=1e-6)


def test_formats_without_versions_reject_a_second_producer() -> None:
    with refused(OperandError, "producer"):
        NetDefinition.of("n", [op("a", "x", "x")], ["x"], ["x"])
    with refused(OperandError, "producer"):
        NetDefinition.of("n", [op("a", "x", "y"), op("b", "x", "y")], ["x"], ["y"])
    names = NetDefinition.of("n", [op("a", "x@0", "x@1")], ["x@0"], ["x@1"])
    assert list(names.blobs) == ["x@0", "x@1"]


def test_declared_types_belong_to_one_version() -> None:
    types = {"x": BlobType((2,), "float32"), "x@1": BlobType((3,), "int64")}
    net = NetDefinition.of("n", [op("a", "x", "x")], ["x"], ["x"], types, rewrites=True)
    assert [(blob.shape, blob.dtype) for blob in net.versions("x")] == [((2,), "float32"), ((3,), "int64")]


names = st.sampled_from(["x", "a", "b", "c"])
steps = st.lists(st.tuples(st.sampled_from(["Relu", "Add", "Sub", "Copy"]), names, names, names), max_size=15)


@pytest.mark.spec("C-9")
@given(steps)
def test_any_program_equals_running_it_in_place(written: list[tuple[str, str, str, str]]) -> None:
    """For random programs over four names, each name has its final value in memory that is overwritten."""
    given = np.array([1.0, -2.0, 3.0], np.float32)
    net, memory = ex.Net("random"), {"x": given}
    net.input("x", (3,))
    for kind, first, second, out in written:
        if kind in ("Add", "Sub") and first in memory and second in memory:
            net.add(kind, [first, second], out)
            memory[out] = memory[first] + memory[second] if kind == "Add" else memory[first] - memory[second]
        elif first in memory and (kind == "Relu" or (kind == "Copy" and first != out)):
            net.add(kind, first, out)
            memory[out] = np.maximum(memory[first], 0) if kind == "Relu" else memory[first]
    net.output(*memory)
    result = net.run(given)
    for name, value in (result if len(memory) > 1 else {"x": result}).items():
        np.testing.assert_array_equal(value, memory[name])


@pytest.mark.spec("C-9")
def test_values_of_versions_are_found_by_name_and_cut() -> None:
    """`operand`, `nodes` and `cut` know every version; a plain name is the last one, but ambiguous as an input."""
    net = ex.Net("versions")
    net.input("x", (2,))
    net.Relu("x", "x")
    net.Add(["x", "x"], "x")
    net.Mul(["x", "x"], "y")
    net.output("y")
    values = np.array([3.0, -1.0], np.float32)
    for name, expected in {"x@0": [3, -1], "x@1": [3, 0], "x@2": [6, 0], "x": [6, 0]}.items():
        assert ex.evaluate(net.operand(name, values)).tolist() == expected
        assert net.cut(outputs=[name]).run(values).tolist() == expected
    assert net.cut(inputs=["x@1"]).run(values).tolist() == [36, 4]
    with pytest.raises(OperandError, match=r"means 3 values(.|\n)*name it: x@0, x@1, x@2"):
        net.cut(inputs=["x"])
    assert len(net.nodes("x@1")) == 1
    assert "x@0 → x@1" in str(net.preview_plan().recording.scopes)


@pytest.mark.parametrize("count", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_a_long_chain_of_rewrites_is_resolved(count: int) -> None:
    net = program(*(op(f"o{index}", "x", "x") for index in range(count)))
    assert net.blob("x").name == f"x@{count}"
    assert net.ssa.topological_order[-1].inputs == (f"x@{count - 1}",)
