"""Optimizer steps in files, against the standard's own cases and explorer's optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from explorer.layers.framework.parameters import Parameter
from explorer.net import Net
from tests.formats.onnx.models import FLOAT, INT64, model, opened
from tests.formats.onnx.standard import cases, outcome

pytestmark = pytest.mark.spec("I-5", "I-9")

_DOMAIN = "ai.onnx.preview.training"
_X, _G, _V = np.random.default_rng(3).normal(size=(3, 4)).astype(np.float32)
_H = np.square(_V)


def net_of(folder: Path, type: str, operands: int, results: int, **arguments: Any) -> Net:
    names = [f"i{place}" for place in range(operands)]
    outputs = [f"o{place}" for place in range(results)]
    node = helper.make_node(type, ["r", "t", *names], outputs, domain=_DOMAIN, **arguments)
    inputs = {"r": (FLOAT, []), "t": (INT64, []), **{name: (FLOAT, [4]) for name in names}}
    file = model([node], inputs, outputs)
    file.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return opened(file, folder)


@pytest.mark.parametrize("module", ["adagrad", "adam", "momentum"])
def test_steps_equal_the_cases_of_the_standard(module: str, tmp_path: Path) -> None:
    outcomes = [outcome(case, tmp_path / "m.onnx") for case in cases(module)]
    assert len(outcomes) >= 2
    assert {kind for kind, _ in outcomes} == {"right"}


@pytest.mark.parametrize("count", [1, 5])
def test_a_step_of_adam_equals_the_optimizers(count: int, tmp_path: Path) -> None:
    """The operator and ex.train use one rule."""
    net = net_of(tmp_path, "Adam", 4, 3, alpha=0.8, beta=0.95, epsilon=1e-4)
    new, mean, squares = net.run(np.float32(0.1), np.int64(count), _X, _G, _V, _H).values()
    parameter = Parameter("w", ex.tensor(_X))
    optimizer = ex.train.Adam(rate=0.1, beta1=0.8, beta2=0.95, epsilon=1e-4)
    optimizer.attach({"w": parameter})
    optimizer.load_state({"w mean": _V, "w squares": _H}, count - 1)
    optimizer.step({"w": _G})
    np.testing.assert_allclose(new, parameter.array, rtol=1e-6)
    for key, value in (("w mean", mean), ("w squares", squares)):
        np.testing.assert_allclose(value, optimizer.state()[key], rtol=1e-6)


def test_adam_corrects_nothing_before_its_first_step(tmp_path: Path) -> None:
    new, mean, squares = net_of(tmp_path, "Adam", 4, 3).run(np.float32(0.1), np.int64(0), _X, _G, _V, _H).values()
    np.testing.assert_allclose(new, _X - 0.1 * mean / (np.sqrt(squares) + 1e-6), rtol=1e-5)


def test_momentum_uses_the_first_gradient_undamped(tmp_path: Path) -> None:
    net = net_of(tmp_path, "Momentum", 3, 2, alpha=0.9, beta=0.1, mode="standard", norm_coefficient=0.0)
    for count, share in ((0, 1), (1, 0.1)):
        moments = [*net.run(np.float32(0.5), np.int64(count), _X, _G, _V).values()][1]
        np.testing.assert_allclose(moments, 0.9 * _V + share * _G, rtol=1e-5)


@pytest.mark.parametrize(
    ("type", "operands", "arguments", "rule"),
    [
        ("Adagrad", 4, {}, "equal numbers of values, gradients and squares"),
        ("Momentum", 3, {"alpha": 0.9, "beta": 0.1, "mode": "heavy"}, "mode must be standard or nesterov"),
        ("Adam", 4, {"alpha": 1.0}, "beta1"),
    ],
)
def test_unsupported_steps_raise_an_error(
    type: str, operands: int, arguments: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    (finding,) = net_of(tmp_path, type, operands, 2, **arguments).check()
    assert rule in finding
