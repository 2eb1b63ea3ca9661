"""Real models as PNNX exports them, with seeded weights: every operand has the value that torch computes for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assets import seeded
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.definition import NetDefinition
from explorer.plan import plan
from explorer.run.executors import run_simple
from explorer.run.program import Program

MODELS = Path(__file__).parents[3] / "assets" / "models"
FILES = sorted(path.name.removesuffix(".pnnx.param") for path in MODELS.glob("*.pnnx.param"))
SAME = {"convbn_opt0": "convbn_opt1"}
"""level 0 says with other operators, over operands of the same names, what level 1 says"""
reference = np.load(MODELS / "reference.npz")

Array = np.ndarray[Any, Any]


def seeded_net(name: str) -> Net:
    """The net of a file, with weights made for the shapes that the file declares."""
    definition: NetDefinition = pnnx.read(MODELS / f"{name}.pnnx.param")
    weights = {
        held.key: seeded.weight(held.key, held.shape)
        for operator in definition.operators
        for held in operator.weights.values()
    }
    return Net(replace(definition, weights=weights), TABLE)


def expected(name: str, what: str) -> Array:
    return np.asarray(reference[f"{SAME.get(name, name)}/{what}"])


def inputs(net: Net, name: str) -> dict[str, Array]:
    """The inputs that the reference was computed for."""
    given = json.loads(expected(name, "inputs").item())
    return {
        blob: seeded.given(f"input{index}", each["shape"], each["dtype"], each["below"])
        for index, (blob, each) in enumerate(zip(net.inputs, given, strict=True))
    }


@pytest.mark.spec("I-1", "I-3", "C-15")
@pytest.mark.parametrize("name", FILES)
def test_real_models_give_what_torch_computes(name: str) -> None:
    """ResNet-18, MobileNetV2, a transformer encoder and an LSTM, at each level of pnnx, give torch's outputs."""
    net = seeded_net(name)
    assert net.check() == []
    found = net.run(inputs(net, name))
    wanted = expected(name, "output")
    assert wanted.std() > 0.01 * np.abs(wanted).max()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.spec("I-3")
@pytest.mark.parametrize("name", FILES)
def test_every_operand_has_the_value_that_torch_computes(name: str) -> None:
    """Every operand of a real model, asked for by its name, has torch's mean, deviation and elements."""
    net = seeded_net(name)
    names = [str(operand) for operand in expected(name, "names")]
    tensors = [operand for operand, blob in net.operands.items() if blob.shape is not None]
    assert set(tensors) <= set(names) <= set(net.operands)
    found = net.cut(outputs=names).run(inputs(net, name))
    values = list(found.values()) if isinstance(found, dict) else [found]
    for operand, value, mean, deviation, picked in zip(
        names, values, *(expected(name, what) for what in ("mean", "deviation", "picked")), strict=True
    ):
        size = 1e-4 * (abs(mean) + deviation)
        assert value.mean(dtype=float) == pytest.approx(mean, abs=size), operand
        assert value.std(dtype=float) == pytest.approx(deviation, abs=size), operand
        places = seeded.places(value.size, len(picked))
        np.testing.assert_allclose(value.flat[places], picked, rtol=0, atol=6 * size, err_msg=operand)


@pytest.mark.spec("I-4", "P-8")
@pytest.mark.parametrize("name", ["resnet18", "resnet18_opt1", "mobilenet_v2", "encoder", "convbn_opt1"])
def test_memory_that_is_used_again_harms_no_value_that_is_still_read(name: str) -> None:
    """In whole models each kernel, when it runs, reads the very values that a run without any reuse of memory gives."""
    net = seeded_net(name)
    given = inputs(net, name)
    outputs = net.build({blob: tuple(array.shape) for blob, array in given.items()})
    planned = plan([outputs])
    schedule, operands = planned.schedule, planned.graph.inputs
    assert len({kernel.buffer for kernel in schedule.kernels if kernel.buffer >= 0}) < len(schedule.kernels) / 2
    program = Program(planned)
    program.bind({parameter: given[parameter.operation.label] for parameter in program.parameters})
    truth = {leaf.uid: program.values[program.slots[leaf.uid]] for leaf in schedule.leaves}
    for kernel in schedule.kernels:
        for node in kernel.nodes:
            truth[node.uid] = node.operation.compute(*[truth[operand.uid] for operand in operands[node.uid]])
    compared = 0

    def compare(index: int) -> None:
        nonlocal compared
        for read in schedule.kernels[index].reads:
            value = program.values[program.slots[read.uid]]
            np.testing.assert_allclose(value, truth[read.uid], rtol=0, atol=1e-4 * np.abs(truth[read.uid]).max())
            compared += 1

    run_simple(program, compare)
    assert compared >= len(schedule.kernels)
    (result,) = program.take()
    wanted = expected(name, "output")
    np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
