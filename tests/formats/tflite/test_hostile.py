"""Damaged and hostile TensorFlow Lite files raise an error with the file's name, and allocate nothing large."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer as ex
from assets.tflite_models import CASES, Graph, Node, Tensor, constant, file
from tests.formats.limited import Outcome, outcomes

SMALL = 400
"""megabytes of a process that allocates nothing that a file claims"""
FAR = 2**31 - 1
VALID = CASES["conv RELU"].file()


def graph(*nodes: Node, **tensors: Tensor) -> bytes:
    """Return a file of operators between x and y."""
    return file(Graph({"x": Tensor((4,)), "y": Tensor((4,)), **tensors}, nodes, ["x"], ["y"]))


def nested(depth: int, width: int) -> bytes:
    """Return graphs each of which calls the next one ``width`` times, through an IF with two branches."""
    tensors = {"c": Tensor(dtype="bool", has_rank=True), **{f"t{place}": Tensor((4,)) for place in range(width + 1)}}
    graphs = [
        Graph(
            tensors,
            [
                Node("IF", ["c", f"t{place}"], [f"t{place + 1}"], "IfOptions",
                     {"ThenSubgraphIndex": level + 1, "ElseSubgraphIndex": level + 1})
                for place in range(width)
            ],
            ["c", "t0"],
            [f"t{width}"],
        )
        for level in range(depth)
    ]  # fmt: skip
    last = Graph({"c": tensors["c"], "a": Tensor((4,))}, [], ["c", "a"], ["a"])
    return file(*graphs, last)


def inside_itself() -> bytes:
    options = {"ThenSubgraphIndex": 0, "ElseSubgraphIndex": 0}
    tensors = {"c": Tensor(dtype="bool", has_rank=True), "x": Tensor((4,)), "y": Tensor((4,))}
    return file(Graph(tensors, [Node("IF", ["c", "x"], ["y"], "IfOptions", options)], ["c", "x"], ["y"]))


def shared(count: int) -> bytes:
    """Return a graph whose operators are all one table, with as many operands as operators."""
    tensors = {"x": Tensor((4,)), "y": Tensor((4,))}
    return file(Graph(tensors, [Node("ADD_N", ["x"] * count, ["y"])], ["x"], ["y"], repeats=count))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a TensorFlow Lite model: 0 bytes"),
    "short": (b"\x10\0\0\0TFL3", "not a TensorFlow Lite model: 8 bytes"),
    "another format": (b"PK\3\4" * 30, "not a TensorFlow Lite model"),
    "root beyond": (struct.pack("<I", FAR) + b"TFL3" + bytes(60), "cut off or damaged"),
    "half": (VALID[: len(VALID) // 2], "cut off or damaged"),
    "cycle": (
        graph(Node("NEG", ["a"], ["b"]), Node("NEG", ["b"], ["a"]), Node("ADD", ["x", "a"], ["y"]),
              a=Tensor((4,)), b=Tensor((4,))), "operators wait for one another"),
    "two producers": (graph(Node("NEG", ["x"], ["y"]), Node("ABS", ["x"], ["y"])), "'y'"),
    "no producer": (graph(Node("ADD", ["x", "a"], ["y"]), a=Tensor((4,))), "'a'"),
    "few elements": (
        graph(Node("ADD", ["x", "a"], ["y"]), a=Tensor((1000, 1000, 1000), data=bytes(16))),
        "has 16 bytes, but (1000, 1000, 1000) of float32 needs 4000000000"),
    "no shape": (
        graph(Node("ADD", ["x", "a"], ["y"]), a=Tensor((-4,), data=bytes(16))), "has the shape (-4,)"),
    "axes": (graph(Node("NEG", ["x"], ["y"]), a=Tensor((1,) * 70)), "has the shape"),
    "far claims": (
        graph(Node("FILL", ["s", "v"], ["a"]), Node("ADD", ["a", "x"], ["y"]), s=constant([FAR, FAR, 4], "int32"),
              v=constant(np.float32(1)), a=Tensor()), ""),
    "tile": (
        graph(Node("TILE", ["x", "s"], ["a"]), Node("NEG", ["a"], ["y"]), s=constant([FAR], "int32"), a=Tensor()), ""),
    "range": (
        graph(Node("RANGE", ["v", "s", "o"], ["a"]), Node("ADD", ["a", "x"], ["y"]), s=constant(np.float32(1e18)),
              v=constant(np.float32(1)), o=constant(np.float32(1)), a=Tensor()), "RANGE claims"),
    "pad": (
        graph(Node("PAD", ["x", "s"], ["a"]), Node("NEG", ["a"], ["y"]), s=constant([[FAR, FAR]], "int32"),
              a=Tensor()), ""),
    "unpack": (
        file(Graph({"x": Tensor((FAR,)), "y": Tensor()}, [Node("UNPACK", ["x"], ["y"])], ["x"], ["y"])),
        "UNPACK claims"),
    "far windows": (
        file(Graph(
            {"x": Tensor((1, FAR, 4, 1), "int8", scale=(0.5,), zero_point=(0,)),
             "y": Tensor((), "int8", scale=(0.5,), zero_point=(0,))},
            [Node("AVERAGE_POOL_2D", ["x"], ["y"], "Pool2DOptions",
                  {"StrideW": 1, "StrideH": 1, "FilterWidth": 2, "FilterHeight": 2})], ["x"], ["y"])),
        "AVERAGE_POOL_2D claims"),
    "inside itself": (inside_itself(), "graph 0 calls itself"),
    "laughs": (nested(30, 20), "inner graphs with at least"),
    "calls graph": (nested(1, 1).replace(b"\1\0\0\0\1\0\0\0", b"\x7f\0\0\0\x7f\0\0\0"), ""),
    "shared": (shared(20_000), "it declares more numbers than fit in its"),
    "texts": (
        graph(Node("CUSTOM", ["x"], ["y"], custom="<script>\x1b[2J\u202e" + "a/" * 3000)), "unknown operator type"),
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes_of_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return the outcomes of all files, each in a separate process."""
    folder = tmp_path_factory.mktemp("hostile")
    paths = {name: folder / f"{number}.tflite" for number, name in enumerate(HOSTILE)}
    for name, path in paths.items():
        path.write_bytes(HOSTILE[name][0])
    result = outcomes(paths.values())
    return {name: result[path] for name, path in paths.items()}


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("name", HOSTILE)
def test_claimed_sizes_are_not_allocated(outcomes_of_files: dict[str, Outcome], name: str) -> None:
    """Inspecting a hostile .tflite file allocates nothing that it only claims, and running it raises an error."""
    outcome, said = outcomes_of_files[name], HOSTILE[name][1]
    assert outcome.status == 0, f"ended by signal {-outcome.status} after {outcome.seconds:.0f} s"
    assert outcome.megabytes < SMALL
    steps = dict(outcome.steps)
    findings = steps.pop("findings", "")
    assert all(text == "fine" or text.startswith("refused: ") for text in steps.values()), steps
    assert "a defect in explorer's builder" not in findings
    assert said in findings + steps["open"] + steps.get("run", "")


def attempt(data: bytes, path: Path) -> None:
    """Open, check and inspect a file; only explorer's errors are allowed."""
    path.write_bytes(data)
    try:
        net = ex.open(path)
        findings = net.check()
        net.preview_plan()
        _ = [weight.array for operator in net.operators.values() for weight in operator.weights.values()]
    except ex.ExplorerError:
        return
    assert not [finding for finding in findings if "a defect in explorer's builder" in finding]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["conv RELU", "SPLIT", "STRIDED_SLICE slice", "QUANTIZE", "RESHAPE"]), st.data())
def test_a_damaged_file_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    """Bytes that change, and files that end early, give an error of explorer, or another graph."""
    valid = bytearray(CASES[name].file())
    for place in data.draw(st.lists(st.integers(0, len(valid) - 1), min_size=1, max_size=3)):
        valid[place] = data.draw(st.sampled_from([0, 1, 4, 127, 128, 255]))
    end = data.draw(st.integers(0, 2 * len(valid)))
    attempt(bytes(valid[:end]), tmp_path_factory.getbasetemp() / "damaged.tflite")
