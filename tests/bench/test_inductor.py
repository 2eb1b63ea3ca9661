"""Inductor's story of real programs: coverage of kernels, graph breaks, and torch's settings afterwards."""

from __future__ import annotations

import logging
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from explorer.compilers import record

pytestmark = pytest.mark.bench
torch = pytest.importorskip("torch")
PROGRAMS = Path(__file__).parents[2] / "assets" / "one_model"


def program(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a program in assets/one_model and its inputs."""
    space = runpy.run_path(str(PROGRAMS / f"{name}.py"))
    return space["program"], space["inputs"]


@pytest.mark.parametrize(("name", "kernels"), [("mlp", 4), ("attention", 7), ("convnet", 18), ("step", 90)])
def test_kernels_have_nodes_and_lines(name: str, kernels: int) -> None:
    """At least 95 % of the kernels lead to nodes and lines, for a training step of two transformer blocks too."""
    module, inputs = program(name)
    recording = record("inductor", module, *inputs, run=False)
    origins = recording.provenance.kernels
    assert len(origins) >= kernels
    covered = sum(bool(each.nodes and each.sources) for each in origins)
    print(f"{name}: {covered} of {len(origins)} kernels, {recording.options}")
    assert covered >= 0.95 * len(origins)


def several(x: Any) -> Any:
    a, b = x.split(2, 1)
    values, indices = torch.max(a, 1)
    return values + b.sum(1), indices, x


def in_place(x: Any) -> Any:
    return x.mul_(2) + 1


def branches(x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def modules() -> list[Any]:
    nn = torch.nn
    return [nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.Dropout()), nn.LayerNorm(4)]


@pytest.mark.parametrize("function", [several, in_place, branches, *modules()], ids=lambda each: repr(each)[:20])
def test_programs_of_several_kinds(function: Any) -> None:
    """Operations with several results, mutated inputs, branches, normalisation in training, and torch's own modules."""
    shape = (2, 1, 4, 4) if isinstance(function, torch.nn.Sequential) else (4, 4)
    recording = record("inductor", function, torch.randn(shape), run=False)
    origins = recording.provenance.kernels
    assert origins
    assert all(origin.nodes for origin in origins)
    # Dynamo has no lines for the code of torch's own modules
    assert isinstance(function, torch.nn.Module) or all(origin.sources for origin in origins)


def test_a_backward_pass_is_stated() -> None:
    layer = torch.nn.Linear(4, 4)

    def trained(x: Any) -> Any:
        with torch.enable_grad():
            return torch.tanh(layer(x))

    options = record("inductor", trained, torch.randn(4, 4), run=False).options
    assert options["backward pass"] == "compiled separately, not recorded"


def test_code_times_and_memory_are_measured() -> None:
    module, inputs = program("mlp")
    recording = record("inductor", module, *inputs)
    assert recording.schedule is not None
    assert recording.run is not None
    assert [step.kernel for step in recording.run.steps] == [0, 1, 2, 3]
    assert all(step.micros > 0 for step in recording.run.steps)
    assert {*recording.codes} == {1, 3}
    assert recording.schedule.peak


def test_decisions_need_no_compiler_and_settings_are_restored() -> None:
    from torch._dynamo import config as dynamo_config
    from torch._inductor import config

    module, inputs = program("mlp")
    logger = logging.getLogger("torch._inductor.scheduler.__fusion")
    before = (config.get_config_copy(), dynamo_config.get_config_copy(), logger.level, [*logger.handlers])
    with config.patch({"cpp.cxx": ("/nowhere/g++",)}):
        recording = record("inductor", module, *inputs)
    assert before == (config.get_config_copy(), dynamo_config.get_config_copy(), logger.level, [*logger.handlers])
    assert "no C++ compiler" in recording.options["code and times"]
    ex.testing.assert_fused(recording, "tanh", "mul")


def test_recording_again_and_recording_a_compiled_function_give_the_same() -> None:
    module, inputs = program("mlp")
    first = record("inductor", module, *inputs, run=False)
    again = record("inductor", torch.compile(module), inputs[0].numpy(), run=False)
    assert ex.explore(first).why("tanh", "mul") == ex.explore(again).why("tanh", "mul")


def test_a_program_without_operations_on_tensors_is_an_error() -> None:
    with pytest.raises(ex.StateError, match="contains no graph"):
        record("inductor", lambda: 3)
    with pytest.raises(ex.OperandError, match="compiles torch modules and functions"):
        record("inductor", "model.onnx")


def test_measuring_writes_nothing_to_standard_error() -> None:
    """The profiler of torch would write lines of its log."""
    program = 'from explorer.compilers import record; import torch; record("inductor", torch.exp, torch.ones(8))'
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "profiler" not in ended.stderr
