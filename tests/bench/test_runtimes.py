"""Runs with onnxruntime and LiteRT on the operators of files: times of operators, their sum, and values."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import pytest
import tflite
from onnx import helper

import explorer as ex
from assets.tflite_models import CASES, Graph, Node, Tensor, Writer, constant
from tests.support.runtime_models import MODELS, cover, model
from tests.support.tflite_files import composite, two_graphs

pytestmark = pytest.mark.bench


def test_times_of_operators(tmp_path: Path) -> None:
    """Each operator has a time or is computed before the run; print the sum of times next to the session's time."""
    print(f"\n{'model':16} operators kernels  timed  early   sum µs   run µs  share  gap µs  plain µs  largest error")
    for name in MODELS:
        path, inputs, tolerance = model(name, tmp_path)
        net = ex.open(path)
        recording: Any = net.recorded_by("onnxruntime", inputs)
        timed, early, operators = cover(net, recording)
        total, whole = sum(step.micros for step in recording.run.steps), recording.run.micros
        plain = []
        for _ in range(20):
            began = perf_counter()
            net.run(inputs, executor="onnxruntime")
            plain.append((perf_counter() - began) * 1e6)
        comparison = net.compare("onnxruntime", inputs, tolerance=tolerance)
        error = max(row.error for row in comparison.rows)
        kernels = len(recording.schedule.kernels)
        print(
            f"{name:16} {operators:9} {kernels:7} {len(timed):6} {len(early):6} {total:8.0f} {whole:8.0f} "
            f"{total / whole:6.1%} {(whole - total) / kernels:7.1f} {min(plain):9.0f}  {error:.1e}"
        )
        assert len(timed) + len(early) == operators
        assert comparison.equal
        # The kernels and what the recording states as the time between them are the whole run.
        counts = recording.stages[-1].counts
        assert abs(total + counts["between_kernels_us"] + counts["around_kernels_us"] - whole) <= 1


@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime_times_every_operator(name: str, tmp_path: Path) -> None:
    """Every operator of the file has a time or is computed before the run, and all values agree."""
    path, inputs, tolerance = model(name, tmp_path)
    net = ex.open(path)
    recording = net.recorded_by("onnxruntime", inputs)
    timed, early, operators = cover(net, recording)
    assert len(timed) + len(early) == operators
    counts = recording.stages[-1].counts
    assert "unmatched" not in counts
    assert "partly_matched" not in counts
    assert net.compare("onnxruntime", inputs, tolerance=tolerance).equal


@pytest.mark.parametrize("name", ["conv same 1 1", "MAX_POOL_2D same 1"])
def test_litert_computes_the_values_of_a_file(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "m.tflite"
    path.write_bytes(case.file())
    net, inputs = ex.open(path), tuple(case.inputs())
    np.testing.assert_allclose(net.run(*inputs, executor="litert"), net.run(*inputs), rtol=0, atol=1e-5)
    assert net.compare("litert", *inputs).equal
    recording = net.recorded_by("litert", inputs)
    assert recording.run is not None
    assert recording.run.micros > 0
    assert recording.run.steps == ()


def test_litert_runs_the_graph_of_a_signature(tmp_path: Path) -> None:
    """Outputs and values of the second graph are LiteRT's, by the names in the signature."""
    path = two_graphs(tmp_path)
    x = np.array([0.5, -1], np.float32)
    for signature in ("prefill", "decode"):
        net = ex.open(path, signature=signature)
        np.testing.assert_allclose(net.run(x, executor="litert"), net.run(x), rtol=1e-6)
        comparison = net.compare("litert", x)
        assert comparison.equal
        assert len(comparison.rows) == len(net.definition.operators)
        recording = net.recorded_by("litert", x)
        assert recording.run is not None
        assert len(recording.run.values) == len(net.definition.operators) + 1


def test_litert_computes_a_composite_operator(tmp_path: Path) -> None:
    net, x = ex.open(composite(tmp_path)), np.array([0.5, -1], np.float32)
    np.testing.assert_allclose(net.run(x, executor="litert"), net.run(x), rtol=1e-6)
    assert net.compare("litert", x).equal


def test_onnxruntime_computes_an_operator_that_explorer_lacks(tmp_path: Path) -> None:
    """A com.microsoft operator is drawn and explored with onnxruntime's value; parts at its operands run there, too."""
    f = onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("CDist", ["r", "x"], ["d"], domain="com.microsoft", metric="euclidean"),
        helper.make_node("Tanh", ["d"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", f, [3, 3])], [helper.make_tensor_value_info("y", f, None)]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends), opset_imports=opsets, ir_version=9), path)
    x = np.arange(9, dtype=np.float32).reshape(3, 3) - 4
    net = ex.open(path)
    recording = net.recorded_by("onnxruntime", x)
    assert recording.run is not None
    assert [*recording.run.values] == [0, 1, 2, 3]
    assert recording.type_text(2) == "3×3 float32"
    assert recording.nodes.flops[2] is None
    assert recording.placements[1].name == "CDist"
    distances = net.cut(outputs=["d"]).run(x, executor="onnxruntime")
    relu = np.maximum(x, 0)
    np.testing.assert_allclose(distances, np.linalg.norm(relu[:, None] - x[None], axis=2), rtol=1e-5)
    np.testing.assert_allclose(net.cut(inputs=["d"]).run(x, executor="onnxruntime"), np.tanh(x), rtol=1e-6)


@pytest.mark.parametrize("name", ["rfft", "variable", "sequence_lstm"])
def test_litert_computes_operators_that_explorer_lacks(name: str, tmp_path: Path) -> None:
    """A file with such an operator opens, and is explored with LiteRT's values; the panel names who computed them."""
    graph, inputs, known = _graph(name)
    path = tmp_path / "m.tflite"
    path.write_bytes(Writer().file([graph]))
    net = ex.open(path)
    recording = net.recorded_by("litert", inputs)
    assert recording.run is not None
    lacking = {recording.label(node) for node, own in recording.nodes.attributes.items() if "Explorer" in own}
    valued = {recording.label(node) for node in recording.run.values if recording.nodes.operands[node]}
    assert known <= valued
    print(name, "Explorer lacks", sorted(lacking), "values of", sorted(valued))
    by = [own["computed by"] for own in recording.nodes.attributes.values() if "computed by" in own]
    assert by
    assert {*by} == {by[0]}
    assert by[0].startswith("litert ")
    ex.explore(recording).save(tmp_path / "m.html")


def _graph(name: str) -> tuple[Graph, dict[str, Any], set[str]]:
    """Return a graph, its inputs, and types of operators whose values must be recorded."""
    if name == "rfft":
        tensors = {
            "x": Tensor((1, 8, 8)),
            "n": constant([8, 8], "int32"),
            "y": Tensor((1, 8, 5), "complex64"),
            "a": Tensor((1, 8, 5)),
            "z": Tensor((1, 8, 5)),
        }
        nodes = [Node("RFFT2D", ["x", "n"], ["y"], "Rfft2dOptions"), Node("COMPLEX_ABS", ["y"], ["a"])]
        graph = Graph(tensors, [*nodes, Node("TANH", ["a"], ["z"])], ["x"], ["z"])
        return graph, {"x": np.arange(64, dtype=np.float32).reshape(1, 8, 8)}, {"RFFT2D", "COMPLEX_ABS", "TANH"}
    if name == "variable":
        tensors = {"x": Tensor((2,)), "h": Tensor((1,), "resource"), "r": Tensor((2,)), "y": Tensor((2,))}
        nodes = [
            Node("VAR_HANDLE", [], ["h"], "VarHandleOptions"),
            Node("ASSIGN_VARIABLE", ["h", "x"], []),
            Node("READ_VARIABLE", ["h"], ["r"]),
            Node("TANH", ["r"], ["y"]),
        ]
        return Graph(tensors, nodes, ["x"], ["y"]), {"x": np.ones(2, np.float32)}, {"READ_VARIABLE", "TANH"}
    rng = np.random.default_rng(0)
    steps, size, units = 3, 2, 4
    tensors = {"x": Tensor((1, steps, size)), "y": Tensor((1, steps, units)), "z": Tensor((1, steps, units))}
    tensors |= {f"w{gate}": constant(rng.normal(size=(units, size)), "float32") for gate in range(4)}
    tensors |= {f"r{gate}": constant(rng.normal(size=(units, units)), "float32") for gate in range(4)}
    tensors |= {f"b{gate}": constant(np.zeros(units), "float32") for gate in range(4)}
    tensors |= {state: Tensor((1, units), is_variable=True) for state in ("h", "c")}
    gates = range(4)
    operands = ["x", *[f"w{g}" for g in gates], *[f"r{g}" for g in gates], None, None, None]
    operands += [*[f"b{g}" for g in gates], None, None, "h", "c", None, None, None, None]
    options = {"FusedActivationFunction": tflite.ActivationFunctionType.TANH}
    lstm = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, ["y"], "UnidirectionalSequenceLSTMOptions", options)
    graph = Graph(tensors, [lstm, Node("TANH", ["y"], ["z"])], ["x"], ["z"])
    return graph, {"x": rng.normal(size=(1, steps, size)).astype(np.float32)}, {lstm.type, "TANH"}


def test_own_quantised_kernels_next_to_litert(tmp_path: Path) -> None:
    """Print, for all cases with 8-bit operands, how many results equal LiteRT's, without and with its delegates."""
    equal = {"without delegates": 0, "with delegates": 0}
    differ: dict[str, int] = {"without delegates": 0, "with delegates": 0}
    count = nodes = operators = 0
    for name, case in CASES.items():
        if "int8" not in name or "many" in name:
            continue
        path = tmp_path / "m.tflite"
        path.write_bytes(case.file())
        net, inputs = ex.open(path), tuple(case.inputs())
        own: Any = net.run(*inputs)
        if isinstance(own, dict) or np.asarray(own).dtype.kind not in "iu":
            continue
        run = net._runtime_run("litert")
        arrays = net.session.checked_arrays(inputs, {})
        [output] = net.definition.outputs
        values = {
            "without delegates": run.values(arrays).get(net.definition.blob(output).blob),
            "with delegates": next(iter(run.outputs(arrays).values())),
        }
        count += 1
        recorded = ex.open(path).explore().recording
        nodes += sum(1 for node in range(len(recorded.nodes)) if recorded.nodes.kind[node] == "operation")
        operators += len(net.definition.operators)
        for kind, value in values.items():
            steps = np.abs(np.asarray(own, np.int64) - np.asarray(value, np.int64))
            equal[kind] += bool((steps == 0).all())
            differ[kind] = max(differ[kind], int(steps.max()))
    print(f"\n{count} cases of 8-bit integers, {operators} operators, {nodes} nodes of Explorer")
    for kind, number in equal.items():
        print(f"{kind:18} all elements equal in {number} cases, largest difference {differ[kind]} steps")
    assert max(differ.values()) <= 1


def test_time_of_a_quantised_convolution(tmp_path: Path) -> None:
    """Print the times of an 8-bit convolution with 64 channels by Explorer and by LiteRT."""
    rng = np.random.default_rng(0)
    filters = rng.integers(-127, 128, (64, 3, 3, 64), np.int8)
    tensors = {
        "x": Tensor((1, 56, 56, 64), "int8", scale=(0.05,), zero_point=(3,)),
        "w": constant(filters, "int8", scale=(0.01,) * 64, zero_point=(0,) * 64),
        "b": constant(rng.integers(-1000, 1000, 64), "int32", scale=(0.0005,) * 64, zero_point=(0,) * 64),
        "y": Tensor((1, 56, 56, 64), "int8", scale=(0.4,), zero_point=(-5,)),
    }
    options = {"Padding": tflite.Padding.SAME, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    node = Node("CONV_2D", ["x", "w", "b"], ["y"], "Conv2DOptions", options)
    path = tmp_path / "conv.tflite"
    path.write_bytes(Writer().file([Graph(tensors, [node], ["x"], ["y"])]))
    net, x = ex.open(path), rng.integers(-128, 128, (1, 56, 56, 64), np.int8)
    for executor in ("simple", "litert"):
        times = []
        for _ in range(10):
            began = perf_counter()
            net.run(x, executor=executor)
            times.append((perf_counter() - began) * 1e3)
        print(f"{executor:8} {min(times):8.2f} ms")
    own, theirs = net.run(x), net.run(x, executor="litert")
    print(f"largest difference {np.abs(own.astype(int) - theirs.astype(int)).max()} steps")
