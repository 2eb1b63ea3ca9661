"""Runs of a net with another runtime: values, times, memory and placement on the operators of the file."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import explorer as ex
from explorer.cli import main
from explorer.record import Placement
from explorer.runtimes import RUNTIMES, FileNode, MeasuredKernel, Measurement, Runtime
from explorer.runtimes.onnx_file import loaded, nodes_of
from explorer.view.model.stage_texts import stage_counts, stage_result

ASSETS = Path(__file__).parents[2] / "assets"
images = np.load(ASSETS / "digits.npz")["images"][:1]


class FakeModel:
    """Runtime that computes with the onnx package's evaluator, and measures 10 µs for each of its kernels."""

    version, placement = "1.0", "FakeProvider"

    def __init__(self, path: str) -> None:
        self.reference: Any = RUNTIMES["onnx.reference"].open(path)
        self.nodes: list[FileNode] = nodes_of(loaded(path))

    def outputs(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        outputs: Mapping[str, Any] = self.reference.outputs(inputs)
        return outputs

    def values(self, inputs: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
        values: Mapping[str, Any] = self.reference.values(inputs, names)
        return values

    def types(self, names: Collection[str]) -> Mapping[str, tuple[tuple[int | None, ...], str]]:
        return dict.fromkeys(names, ((3, 3), "float32"))

    def measure(self, inputs: Mapping[str, Any], runs: int | None = None) -> Measurement:
        """The first two nodes are one kernel."""
        count = len(self.nodes)
        groups = [(0, 1), *[(index,) for index in range(2, count)]]
        kernels = [
            MeasuredKernel(nodes, "FusedConv" if len(nodes) > 1 else self.nodes[nodes[0]].type, 10.0 * at, 10.0,
                           100 + at, "FakeProvider")
            for at, nodes in enumerate(groups)
        ]  # fmt: skip
        return Measurement(
            tuple(kernels),
            10.0 * len(kernels) + 5,
            "Times are invented.",
            512,
            unplaced=(("Reorder", 3.0),),
            runs=runs or 1,
            between=1.5,
            around=0.5,
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setitem(RUNTIMES, "fake", Runtime("fake", "numpy", "pip install numpy", ".onnx", FakeModel))
    yield "fake"
    del RUNTIMES["fake"]


@pytest.mark.spec("X-3", headline=True)
def test_a_runtime_runs_the_operators_of_a_file(fake: str) -> None:
    """Run a net with another runtime, and record its values, times, memory and placement on the file's operators."""
    net = ex.open(ASSETS / "digits.onnx")
    np.testing.assert_allclose(net.run(images, executor=fake), net.run(images), atol=1e-6)
    recording = net.explore(images, executor=fake).recording
    run, schedule, nodes = recording.run, recording.schedule, recording.nodes
    assert run is not None
    assert schedule is not None
    operations = [node for node in range(len(nodes)) if nodes.operands[node]]
    assert [recording.label(node) for node in operations] == [operator.type for operator in net.operators.values()]
    assert [len(kernel.nodes) for kernel in schedule.kernels] == [2] + [1] * (len(operations) - 2)
    assert {node for kernel in schedule.kernels for node in kernel.nodes} == {*operations}
    assert [step.micros for step in run.steps] == [10.0] * len(schedule.kernels)
    assert schedule.peak == 512
    assert [step.live for step in run.steps[:2]] == [100, 101]
    assert {*operations} <= {*run.values}
    assert recording.placements[0] == Placement("FusedConv", "fake 1.0", "FakeProvider")
    assert not any("computed by" in known for known in nodes.attributes.values())
    stage = recording.stages[-1]
    assert stage.purpose == "The operators of the file, measured by fake 1.0, FakeProvider. Times are invented."
    assert (stage.counts["unmatched"], stage.counts["unmatched_us"]) == (1, 3)
    # With the rest of the run, the times of operators add up to the time of the run.
    rest = [stage.counts[name] for name in ("unmatched_us", "between_kernels_us", "around_kernels_us")]
    assert sum(step.micros for step in run.steps) + sum(rest) == run.micros
    assert stage_counts(stage)[-3:] == [
        ("in kernels", "143 µs"),
        ("between kernels", "2 µs"),
        ("before and after kernels", "0 µs"),
    ]
    assert stage_result(recording, len(recording.stages) - 1).startswith("14 kernels took 143 µs of the 145 µs of a")
    assert recording.decisions == []


def test_times_of_a_runtime_are_saved(fake: str, tmp_path: Path) -> None:
    """A page and the recording as JSON work as for a run of Explorer."""
    view = ex.open(ASSETS / "digits.onnx").explore(images, executor=fake)
    view.save(tmp_path / "view.html")
    view.save(tmp_path / "view.json")
    assert "fake 1.0" in (tmp_path / "view.html").read_text()
    again = ex.explore(tmp_path / "view.json").recording
    assert again.run is not None
    assert len(again.run.steps) == 14


def test_a_net_of_another_format_runs_through_an_onnx_file(fake: str) -> None:
    """Values and times have the names of the net's own operators."""
    net = ex.open(ASSETS / "digits.pnnx.param")
    recording = net.recorded_by(fake, images)
    assert recording.run is not None
    assert recording.schedule is not None
    timed = {recording.label(node) for kernel in recording.schedule.kernels for node in kernel.nodes}
    assert {"nn.Conv2d", "nn.Linear", "nn.MaxPool2d"} <= timed
    assert net.compare(fake, images).equal


def test_an_edited_net_runs_as_edited(fake: str) -> None:
    net = ex.open(ASSETS / "digits.onnx")
    net.run(images, executor=fake)
    net.replace("/relu1/Relu", "Sigmoid")
    np.testing.assert_allclose(net.run(images, executor=fake), net.run(images), atol=1e-6)


def test_a_part_of_a_net_runs_as_the_part(fake: str) -> None:
    """A runtime runs neither the whole file in place of a part, nor the unedited file in place of a copy."""
    net = ex.open(ASSETS / "digits.onnx")
    part = net.cut(outputs=["/relu1/Relu_output_0"])
    np.testing.assert_allclose(part.run(images, executor=fake), part.run(images), atol=1e-6)
    assert part.compare(fake, images).equal
    net.replace("/relu1/Relu", "Sigmoid")
    np.testing.assert_allclose(copy.copy(net).run(images, executor=fake), net.run(images), atol=1e-6)


def test_an_edited_net_is_compared_with_its_file(fake: str) -> None:
    """A comparison finds a damaged weight, because the reference runs the file, not the damaged net."""
    net = ex.open(ASSETS / "digits.onnx")
    assert net.compare(fake, images).equal
    weights = net["/residual/conv2/Conv"].weights
    (name,) = [name for name, weight in weights.items() if weight.shape == (12, 12, 3, 3)]
    weights[name] = weights[name] * 2
    first = net.compare(fake, images).first
    assert first is not None
    assert first.operator == "/residual/conv2/Conv"


class MysteryModel(FakeModel):
    """Runtime that knows the operator example.Mystery, which negates its operand."""

    def __init__(self, path: str) -> None:
        self.nodes = nodes_of(loaded(path))

    def outputs(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        values = self.values(inputs, ())
        return {node.outputs[0]: values[node.outputs[0]] for node in self.nodes}

    def values(self, inputs: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
        functions = {"Relu": lambda x: np.maximum(x, 0), "Mystery": np.negative, "Tanh": np.tanh}
        values = dict(inputs)
        for node in self.nodes:
            values[node.outputs[0]] = functions[node.type](values[node.inputs[0]])
        return values


def mystery(path: Path) -> Path:
    """Write tanh(Mystery(relu(x))), in which only the runtime knows Mystery and the dtype of its result."""
    f = onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Mystery", ["r"], ["m"], domain="example"),
        helper.make_node("Tanh", ["m"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info("x", f, [3, 3])], [helper.make_tensor_value_info("y", f, [3, 3])]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("example", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ends), opset_imports=opsets, ir_version=9), path)
    return path


@pytest.fixture
def mysterious(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ex.Net]:
    monkeypatch.setitem(RUNTIMES, "fake", Runtime("fake", "numpy", "pip install numpy", ".onnx", MysteryModel))
    yield ex.open(mystery(tmp_path / "m.onnx"))
    del RUNTIMES["fake"]


x = np.arange(9, dtype=np.float32).reshape(3, 3) - 4


@pytest.mark.spec("X-3")
def test_an_operator_that_only_the_runtime_knows_is_explored(mysterious: ex.Net) -> None:
    """Explorer draws it with the runtime's value and type; operators after it have flops again."""
    recording = mysterious.recorded_by("fake", x)
    nodes = recording.nodes
    assert nodes.label == ["x", "Relu", "example.Mystery", "Tanh"]
    assert recording.run is not None
    assert recording.run.values[2].min == -4.0
    assert recording.type_text(2) == "3×3 float32"
    assert [nodes.flops[node] is None for node in range(4)] == [False, False, True, False]
    assert nodes.attributes[2]["Explorer"] == "cannot run it: the operator type 'example.Mystery' is unknown"
    assert [recording.operations[row] for row in nodes.operation[1:]] == nodes.label[1:]
    assert "Explorer" not in nodes.attributes.get(3, {})
    assert recording.placements[1].text == "fake 1.0 · FakeProvider · Tanh"


@pytest.mark.spec("X-3")
def test_a_part_that_begins_or_ends_at_an_operand_of_unknown_dtype_runs(mysterious: ex.Net) -> None:
    """The runtime's types are written to the file of the part."""
    end = mysterious.cut(outputs=["m"])
    np.testing.assert_array_equal(end.run(x, executor="fake"), -np.maximum(x, 0))
    begin = mysterious.cut(inputs=["m"])
    np.testing.assert_allclose(begin.run(x, executor="fake"), np.tanh(x), rtol=1e-6)


@pytest.mark.spec("X-3")
def test_values_that_are_no_tensors_are_left_out(mysterious: ex.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime's value may be the handle of a variable; a runtime without times of operators is still named."""
    values = MysteryModel.values

    def with_handle(self: MysteryModel, inputs: Mapping[str, Any], names: Collection[str]) -> Mapping[str, Any]:
        return {**values(self, inputs, names), "m": np.array([object()])}

    monkeypatch.setattr(MysteryModel, "values", with_handle)
    monkeypatch.setattr(MysteryModel, "measure", lambda self, inputs, runs=None: None)
    recording = mysterious.recorded_by("fake", x)
    assert recording.run is not None
    assert [*recording.run.values] == [0, 1, 3]
    assert recording.nodes.attributes[1] == {"computed by": "fake 1.0, FakeProvider"}


def test_a_runtime_that_is_not_installed_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.runtimes.registry.find_spec", lambda name: None)
    with pytest.raises(ex.StateError, match="onnxruntime is not installed") as caught:
        ex.open(ASSETS / "digits.onnx").run(images, executor="onnxruntime")
    assert caught.value.fix == "pip install 'explorer-graphs[onnxruntime]'"


def test_a_runtime_for_another_format_raises_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("explorer.runtimes.registry.find_spec", lambda name: True)
    with pytest.raises(ex.OperandError, match=r"(?s)must have been opened from an \.tflite file"):
        ex.open(ASSETS / "digits.onnx").run(images, executor="litert")


@pytest.mark.spec("Q-2", "X-3")
def test_a_profile_has_the_times_of_a_runtime(fake: str) -> None:
    """`net.profile(x, executor=…)` assigns a runtime's kernels to operators; flops and bytes are Explorer's."""
    net = ex.open(ASSETS / "digits.onnx")
    profile = net.profile(images, executor=fake, runs=7)
    first, second = profile.rows[:2]
    assert (first.operators, first.types, first.micros) == (("/conv1/Conv", "/relu1/Relu"), ("Conv", "Relu"), 10.0)
    assert second.operators == ("/conv2/Conv",)
    assert second.flops == pytest.approx(2 * 12 * 8 * 9 * 64, rel=0.02)
    assert second.bytes == 4 * (12 * 8 * 9 + 12 + 8 * 64 + 12 * 64)
    assert first.bytes == 4 * (64 + 8 * 9 + 8 + 8 * 64)  # the convolution's result stays inside the kernel
    assert profile.rows[-1].operators == ("Reorder of fake",)
    assert profile.micros == 10.0 * 14 + 3
    assert "medians of 7 warm runs of fake 1.0, FakeProvider" in str(profile)
    with pytest.raises(ex.OperandError, match="must report the time of each operator"):
        net.profile(images, executor="onnx.reference")


def test_the_command_line_runs_and_shows_with_a_runtime(
    fake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer run --with` prints the runtime's outputs, and `explorer show --with` writes its times."""
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", image=images)
    file = str(ASSETS / "digits.onnx")
    assert main(["run", file, "--input", "x.npz", "--with", fake]) == 0
    assert "probability: float32 (1, 10)" in capsys.readouterr().out
    assert main(["show", file, "--input", "x.npz", "--with", fake, "-o", "x.html"]) == 0
    assert "fake 1.0" in Path("x.html").read_text()
    assert main(["profile", file, "--input", "x.npz", "--with", fake, "--by", "type"]) == 0
    assert "Conv + Relu ×1  10.0" in capsys.readouterr().out
    assert main(["show", file, "--with", fake]) == 2
    assert "a model must have inputs to be run" in capsys.readouterr().err
