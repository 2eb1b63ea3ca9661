"""A compiler of a few lines, its adapter, and what Explorer shows of it."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

import explorer as ex
from explorer.compilers import Snapshot, Statement, Value, recording_of
from explorer.record.rows import Source
from tests.support.toy_compiler import toy_compiler


def test_a_toy_compilers_decisions_refusals_and_kernels_are_shown() -> None:
    recording = toy_compiler()
    assert [(stage.name, stage.last - stage.first) for stage in recording.stages] == [
        ("given", 0),
        ("simplify", 1),
        ("loops", 2),
    ]
    view = ex.explore(recording)
    assert recording.stages[-1].counts["bytes"] == 4 * 8 * 4 + 4  # tanh is not written
    why = view.why("mul", "sum")
    assert "is not fused into `sum`: a reduction reads its operand once" in why


def test_a_value_without_a_box_or_line_has_those_of_the_values_that_it_replaces() -> None:
    line = Source("toy.txt", 1, "a = exp(x)")
    before = {"x": Value("x", kind="leaf"), "a": Value("exp", ("x",), scope=("block",), source=line)}
    after = {"x": before["x"], "b": Value("exp_fast", ("x",))}
    recording = recording_of("boxes", [Snapshot("given", before, ("a",)), Snapshot("lower", after, ("b",))])
    [made] = [node for node, born in enumerate(recording.nodes.born) if born >= 0]
    assert recording.scopes[recording.nodes.scope[made]].name == "block"
    assert recording.sources[recording.nodes.source[made]] == line


def test_decisions_about_two_nodes_are_found_after_several_replacements() -> None:
    given = {"x": X, "a": Value("exp", ("x",)), "b": Value("sum", ("a",))}
    lowered = {"x": X, "p": Value("exp_fast", ("x",)), "b": Value("sum", ("p",))}
    vectors = {"x": X, "r": Value("exp_vector", ("x",)), "b": Value("sum", ("r",))}
    refused = Statement("loops", "declined", "`{a}` stays apart from `{b}`.", ("p", "b"), facts={"a": "p", "b": "b"})
    passes = [
        Snapshot("given", given, ("b",)),
        Snapshot("lower", lowered, ("b",)),
        Snapshot("loops", vectors, ("b",), (refused,)),
    ]
    view = ex.explore(recording_of("renamed", passes))
    assert "`exp_fast` stays apart from `sum`" in view.why("exp", "sum")


def test_a_recording_that_cannot_be_shown_raises_an_error() -> None:
    recording = toy_compiler()
    recording.nodes.operands[1] = (2,)
    with pytest.raises(ex.ExplorerError, match=r"(?s)row 1 reads its own result.*rule: .*fix: "):
        ex.explore(recording)
    recording = toy_compiler()
    recording.stages[1] = replace(recording.stages[1], last=2)
    with pytest.raises(ex.ExplorerError, match="'loops' starts at decision 1, and 'simplify'"):
        ex.explore(recording)
    recording = toy_compiler()
    recording.types[0] = replace(recording.types[0], shape=cast("tuple[int, ...]", ("batch",)))
    with pytest.raises(ex.ExplorerError, match="row 0 has the size 'batch'"):
        ex.explore(recording)


X = Value("x", kind="leaf")
GIVEN = Snapshot("given", {"x": X, "y": Value("f", ("x",))}, ("y",))


@pytest.mark.parametrize(
    ("snapshots", "problem"),
    [
        ([], "no snapshots"),
        ([Snapshot("given", {"y": Value("f", ("x",)), "x": X}, ("y",))], "'y' reads 'x', which comes later"),
        ([Snapshot("given", {"y": Value("f", ("x",))}, ("y",))], "is no value of the graph"),
        ([Snapshot("given", {"x": X}, ("z",))], "the tuple of results contains 'z'"),
        ([Snapshot("given", {"x": X}, ())], "the tuple of results is empty"),
        ([Snapshot("given", {"x": X}, ("x",), kernels={"k": ()})], "kernel 'k' is empty"),
        ([Snapshot("given", {"x": Value("x", shape=(-1,))}, ("x",))], "has the shape (-1,)"),
        ([GIVEN, Snapshot("p", {"x": X}, ("x", "x"))], "has 2 results, and the program 1"),
        ([GIVEN, Snapshot("p", GIVEN.values, ("y",), (Statement("r", "declined", "no", ("z",)),))], "is about 'z'"),
    ],
)
def test_snapshots_that_are_no_graphs_raise_an_error(snapshots: list[Snapshot], problem: str) -> None:
    with pytest.raises(ex.ExplorerError, match=r"(?s)rule: .*fix: ") as caught:
        recording_of("wrong", snapshots)
    assert problem in str(caught.value)


def test_an_operation_with_several_results_is_one_node_with_items() -> None:
    """X-2: the results that are read are items, a pass may rename them, and constants have labels."""
    half = ((2,), "float32")
    given = {
        "x": Value("x", shape=(4,), kind="leaf"),
        "c": Value("c", kind="constant", label="0.5"),
        "s": Value("Split", ("x",), parts=(half, half)),
        "s:0": Value("item", ("s",), (2,), kind="item", attributes={"index": "0"}),
        "s:1": Value("item", ("s",), (2,), kind="item", attributes={"index": "1"}),
        "y": Value("Mul", ("s:1", "c"), (2,)),
        "z": Value("com.vendor.Sub", ("s:0", "y"), (2,), label="Sub"),
    }
    fused = {name: given[name] for name in ("x", "c")}
    fused |= {"t": replace(given["s"], attributes={"axis": "0"}), "t:0": replace(given["s:0"], operands=("t",))}
    fused |= {"t:1": replace(given["s:1"], operands=("t",)), "w": Value("MulSub", ("t:0", "t:1", "c"), (2,))}
    recording = recording_of("split", [Snapshot("given", given, ("z",)), Snapshot("fuse", fused, ("w",))])
    assert recording.nodes.label == [
        "x",
        "0.5",
        "Split",
        "item",
        "item",
        "Mul",
        "Sub",
        "Split",
        "item",
        "item",
        "MulSub",
    ]
    assert recording.stages[1].counts["operations"] == 2
    assert recording.type_text(2) == "(2 float32, 2 float32)"
    assert recording.nodes.bytes[2:4] == [16, 0]
    assert "`Split · Mul · Sub` became `Split · MulSub`" in ex.explore(recording).why("Mul")
