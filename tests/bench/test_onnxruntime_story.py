"""onnxruntime's story of whole models: stages, kernels with nodes and lines, times of sessions, and sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import onnx
import pytest

import explorer as ex
from assets import seeded
from explorer.compilers.adapters.onnxruntime.story import create_sessions, recording_from
from explorer.compilers.child import run_python
from tests.support.onnx_patterns import CASES, REPAIRED
from tests.support.onnx_stages import digests_of_graphs, digests_of_stages
from tests.support.runtime_models import MODELS, model

pytestmark = pytest.mark.bench
_SHAPES = {
    "resnet18": (1, 3, 224, 224),
    "mobilenet_v2": (1, 3, 224, 224),
    "encoder": (1, 32),
    "encoder_opset14": (1, 32),
}


def inputs_of(name: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    path, inputs, _ = model(name, folder)
    if name in _SHAPES:
        inputs = {key: seeded.given("input", _SHAPES[name], str(value.dtype), 200) for key, value in inputs.items()}
    return path, inputs


@pytest.mark.parametrize("name", MODELS)
def test_the_story_of_a_model(name: str, tmp_path: Path) -> None:
    """X-4: each stage's graph is onnxruntime's, at least 95 % of kernels trace to nodes and lines, and sizes."""
    path, inputs = inputs_of(name, tmp_path)
    net, folder = ex.open(path), tmp_path / "sessions"
    folder.mkdir()
    script = tmp_path / "start.py"
    script.write_text("import numpy, onnxruntime")
    run_python(script, compiler="onnxruntime")
    began = perf_counter()
    run_python(script, compiler="onnxruntime")
    start = perf_counter() - began
    began = perf_counter()
    create_sessions(net, net.session.checked_arrays((inputs,), {}), folder, runs=0)
    seconds = perf_counter() - began
    create_sessions(net, net.session.checked_arrays((inputs,), {}), folder, runs=20)
    recording = recording_from(net, folder)
    assert {*digests_of_stages(recording).values()} <= digests_of_graphs(folder)
    origins = recording.provenance.kernels
    traced = sum(bool(origin.nodes and origin.sources) for origin in origins)
    assert traced >= 0.95 * len(origins)
    assert recording.run is not None
    assert len(recording.run.steps) == len(origins)
    own = json.loads((folder / "sessions.json").read_text())["sessions"]
    sessions = [row["seconds"] for row in own]
    view = ex.explore(recording)
    view.save(tmp_path / "story.json")
    size = (tmp_path / "story.json").stat().st_size
    applied = sum(row.verdict == "applied" for row in recording.decisions)
    print(
        f"\n{name:16} {len(recording.stages):2} stages {applied:3} applied "
        f"{len(recording.decisions) - applied:3} declined, {traced}/{len(origins)} traced, {size // 1024:4} KB; "
        f"{len(sessions)} sessions {sum(sessions):.2f} s, one {max(sessions[:2]):.2f} s, start {start:.2f} s, "
        f"all {seconds:.2f} s"
    )
    if name == "resnet18":
        assert size <= 300 * 1024


def test_a_torch_module_a_net_and_a_file(tmp_path: Path) -> None:
    """X-4: nodes of a torch module have the lines of its ``forward``; a net is written to a file."""
    torch = pytest.importorskip("torch")

    class Classifier(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

        def forward(self, x: Any) -> Any:
            hidden = self.first(x)
            return self.last(torch.relu(hidden))

    view = ex.explore(Classifier().eval(), torch.ones(2, 8), compiler="onnxruntime")
    recording = view.recording
    assert "FusedGemm" in recording.nodes.label
    assert all(origin.sources for origin in recording.provenance.kernels)
    assert [text.where for text in recording.source_texts] == ["test_onnxruntime_story.py"]
    assert "return self.last(torch.relu(hidden))" in [source.text for source in recording.sources]
    net = ex.Net("small")
    net.output(net.Relu(net.input("x", (2, 3)), "y"))
    recording = ex.explore(net, np.ones((2, 3), np.float32), compiler="onnxruntime").recording
    assert recording.nodes.label == ["x", "Relu"]
    assert recording.run is not None
    assert ex.explore(net, compiler="onnxruntime", run=False).recording.run is None


def test_inputs_without_lengths_are_an_error(tmp_path: Path) -> None:
    path, _, _ = model("encoder", tmp_path)
    with pytest.raises(ex.OperandError, match=r"input 'x' has the shape s23×32"):
        ex.explore(path, compiler="onnxruntime")
    net = ex.open(path).assume(x=(3, 32))
    recording = ex.explore(net, compiler="onnxruntime").recording
    assert recording.type_of(0).shape == (3, 32)
    with pytest.raises(ex.OperandError):
        ex.explore(path, np.ones((2, 3), np.int64), compiler="onnxruntime")


_CHANGED_BEFORE = {
    "an activation that a FusedConv lacks",  # onnxruntime computes HardSwish by two operators
    "a convolution without a bias",  # the blocked memory format comes first
    "an addend of another shape",
    "values without a bias",  # a FusedMatMul reads the transposed values
}
"""models in which an earlier transformer changes the pattern"""


@pytest.mark.parametrize("case", [name for name in CASES if name not in _CHANGED_BEFORE])
def test_onnxruntime_declines_where_explorer_names_a_reason(case: str, tmp_path: Path) -> None:
    """X-4: what Explorer's reading names as declined is not fused in onnxruntime's last graph."""
    model, rule, _ = CASES[case]
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    recording = ex.explore(path, compiler="onnxruntime", run=False).recording
    rules = [row.rule for row in recording.decisions if row.verdict == "declined"]
    assert any(re.fullmatch(rule, each) for each in rules)


@pytest.mark.parametrize("case", REPAIRED)
def test_onnxruntime_fuses_where_no_requirement_fails(case: str, tmp_path: Path) -> None:
    """X-4: without the failure that the reason names, onnxruntime fuses, and nothing is declined."""
    model, operator = REPAIRED[case]
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    recording = ex.explore(path, compiler="onnxruntime", run=False).recording
    assert operator in [recording.nodes.label[node] for node, born in enumerate(recording.nodes.born) if born >= 0]
    rules = [row.rule for row in recording.decisions if row.verdict == "declined"]
    assert not any(re.fullmatch(CASES[case][1], each) for each in rules)
