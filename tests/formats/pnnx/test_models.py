"""Real models as PNNX exports them, with seeded weights: every operand has the value that torch computes for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from assets import seeded
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.definition import NetDefinition

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


def inputs(net: Net, name: str, **changes: tuple[int, ...]) -> dict[str, Array]:
    """The inputs that the reference was computed for."""
    given = json.loads(expected(name, "inputs").item())
    return {
        blob: seeded.given(f"input{index}", each["shape"], each["dtype"], each["below"])
        for index, (blob, each) in enumerate(zip(net.inputs, given, strict=True))
    }


def everything(net: Net, given: Mapping[str, Array], **options: Any) -> dict[str, Array]:
    """The value of every operand, each kept by its own root."""
    names = list(net.operands)
    parameters = {name: tuple(array.shape) for name, array in given.items()}
    build = net.cut(outputs=names).build(parameters)
    plan = ex.EvalPlan(**options)
    handles = {name: plan.register(node) for name, node in build.items()}
    plan.eval({build[name]: array for name, array in given.items()})
    return {name: handle.data() for name, handle in handles.items()}


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
