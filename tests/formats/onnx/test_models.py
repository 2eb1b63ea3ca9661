"""Real models from torch's two exporters, with seeded weights: every operand has the standard's value."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from assets import seeded
from explorer.formats import onnx
from explorer.formats.onnx.operators import TABLE
from explorer.net import Net
from tests.formats.reference import Array, assert_close, assert_operands, assert_reads, seeded_net

MODELS = Path(__file__).parents[3] / "assets" / "models"
FILES = sorted(path.stem for path in MODELS.glob("*.onnx"))
WITHIN = 1e-5
"""float32 against float64, relative to the largest element"""
reference = np.load(MODELS / "reference_onnx.npz")


def opened(name: str) -> Net:
    return seeded_net(onnx.read(MODELS / f"{name}.onnx"), TABLE)


def expected(name: str, what: str) -> Array:
    return np.asarray(reference[f"{name}/{what}"])


def inputs(net: Net, name: str) -> dict[str, Array]:
    """Return the input of the reference computation."""
    given = json.loads(expected(name, "input").item())
    (blob,) = net.inputs
    return {blob: seeded.given("input0", given["shape"], given["dtype"], given["below"])}


@pytest.mark.spec("I-3", "C-15")
@pytest.mark.parametrize("name", FILES)
def test_real_models_follow_the_standard(name: str) -> None:
    """ResNet-18, MobileNetV2, a transformer encoder and an LSTM in opsets 13 to 20 return the reference outputs."""
    net = opened(name)
    assert net.check() == []
    result = net.run(inputs(net, name))
    wanted = expected(name, "output")
    assert wanted.std() > 0.01 * np.abs(wanted).max()
    assert_close(result, wanted, within=WITHIN)


@pytest.mark.spec("C-15", headline=True)
@pytest.mark.parametrize("name", FILES)
def test_real_models_reuse_memory_by_live_ranges(name: str) -> None:
    """Reuse memory within live ranges: a real model needs at most 0.6 times the memory without reuse; each reuse is a
    decision.
    """
    net = opened(name)
    recording = net.plan(inputs(net, name)).recording
    (stage,) = [stage for stage in recording.stages if stage.name == "buffers"]
    counts = stage.counts
    assert counts["peak_lower_bound"] <= counts["peak"] < 0.6 * counts["peak_without_reuse"]
    assert counts["peak"] < 1.3 * counts["peak_lower_bound"]
    reused = [decision for decision in recording.decisions if decision.code == "reused"]
    assert recording.schedule is not None
    buffers = [kernel.buffer for kernel in recording.schedule.kernels if kernel.buffer >= 0]
    assert len(reused) >= len({buffer for buffer in buffers if buffers.count(buffer) > 1}) > 0


@pytest.mark.spec("I-3")
@pytest.mark.parametrize("name", FILES)
def test_every_operand_has_the_value_of_the_standard(name: str) -> None:
    """Every operand of a real model, requested by name, has the reference's mean, deviation and elements."""
    net = opened(name)
    names = [str(operand) for operand in expected(name, "names")]
    real = {operand for operand, blob in net.operands.items() if blob.shape is not None and blob.dtype == "float32"}
    assert real - set(net.inputs) <= set(names) <= set(net.operands)
    values = (expected(name, what) for what in ("mean", "deviation", "picked"))
    assert_operands(net, inputs(net, name), names, *values, within=WITHIN)


@pytest.mark.spec("I-4", "P-8", headline=True)
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "encoder", "encoder_opset14"])
def test_reused_memory_changes_no_value_in_use(name: str) -> None:
    """Reuse memory safely: each kernel of a model reads the same values as in a run without reuse."""
    net = opened(name)
    assert_reads(net, inputs(net, name), expected(name, "output"))


@pytest.mark.parametrize("name", ["encoder", "lstm"])
def test_external_weights_of_a_real_model_are_found_by_offset(name: str, tmp_path: Path) -> None:
    """The weights are stored consecutively in an external file, and read at their recorded offsets."""
    shutil.copy(MODELS / f"{name}.onnx", tmp_path)
    stored = onnx.read(tmp_path / f"{name}.onnx")
    net = ex.open(tmp_path / f"{name}.onnx")
    missing = net.check()
    keys = {held.key for operator in stored.operators for held in operator.weights.values()}
    [finding] = missing
    assert "cannot be read: No such file" in finding
    counted = re.search(r" (\d+) weights ", finding)
    assert counted is not None
    assert int(counted[1]) >= len(keys)
    from explorer.formats.onnx.proto import parse

    data = (tmp_path / f"{name}.onnx").read_bytes()
    message = parse(data, name, len(data))
    held = [tensor for tensor in message.graph.initializer if tensor.external_data]
    data = b"".join(seeded.weight(tensor.name, tensor.dims).tobytes() for tensor in held)
    (tmp_path / f"{name}.onnx.data").write_bytes(data)
    whole = ex.open(tmp_path / f"{name}.onnx")
    assert whole.check() == []
    assert_close(whole.run(inputs(whole, name)), expected(name, "output"), within=WITHIN)
