"""Real models exported by PNNX, with seeded weights: every operand has torch's value."""

from __future__ import annotations

import numpy as np
import pytest

from tests.formats.reference import assert_close, assert_operands, assert_reads
from tests.support.pnnx_models import MODELS, expected, inputs, opened

FILES = sorted(path.name.removesuffix(".pnnx.param") for path in MODELS.glob("*.pnnx.param"))


@pytest.mark.spec("I-1", "I-3", "C-15")
@pytest.mark.parametrize("name", FILES)
def test_real_models_equal_torch(name: str) -> None:
    """ResNet-18, MobileNetV2, a transformer encoder and an LSTM, at each level of pnnx, give torch's outputs."""
    net = opened(name)
    assert net.check() == []
    result = net.run(inputs(net, name))
    wanted = expected(name, "output")
    assert wanted.std() > 0.01 * np.abs(wanted).max()
    assert_close(result, wanted)


@pytest.mark.spec("I-3")
@pytest.mark.parametrize("name", FILES)
def test_every_operand_has_the_value_computed_by_torch(name: str) -> None:
    """Every operand of a real model, requested by name, has torch's mean, deviation and elements."""
    net = opened(name)
    names = [str(operand) for operand in expected(name, "names")]
    tensors = [operand for operand, blob in net.operands.items() if blob.shape is not None]
    assert set(tensors) <= set(names) <= set(net.operands)
    assert_operands(net, inputs(net, name), names, *(expected(name, what) for what in ("mean", "deviation", "picked")))


@pytest.mark.spec("I-4", "P-8")
@pytest.mark.parametrize("name", ["resnet18", "resnet18_opt1", "mobilenet_v2", "encoder", "convbn_opt1"])
def test_reused_memory_changes_no_value_in_use(name: str) -> None:
    """In complete models each kernel reads the values of a run without memory reuse."""
    net = opened(name)
    assert_reads(net, inputs(net, name), expected(name, "output"))
