"""Example values for unknown lengths, tried until the operators match, with fewer attempts for larger nets."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import explorer as ex
from explorer.core.types.tensor_type import Shape
from explorer.formats.pnnx.operators import TABLE
from explorer.net.building.builder import Build
from explorer.net.building.example_shapes import fitting_shapes
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition, WeightReference


@pytest.mark.parametrize(
    ("text", "most"), [("add(@0,@1)", 100), ("add(" * 20_000 + "@0,@1)" + ",1)" * 19_999 + " " * 200_000, 4)]
)
@pytest.mark.spec("I-2")
def test_an_expensive_net_is_tried_with_few_lengths(text: str, most: int) -> None:
    """If no lengths match, a short expression is tried with all of them, and one of 300 KB with few."""
    operator = OperatorDefinition("pnnx.Expression", "e", ("x", "y"), ("z",), {"expr": text})
    types = {"x": BlobType((1, 4, None, 6), "float32"), "y": BlobType((1, 4, 7, 5), "float32")}
    definition = NetDefinition.of("n", [operator], ["x", "y"], ["z"], types, dialect="pnnx")
    net = ex.Net(definition, TABLE)
    tried: list[Mapping[str, Shape]] = []

    def build(shapes: Mapping[str, Shape]) -> Build:
        tried.append(shapes)
        return net.session.recorded(net.session.shaped(shapes), opaque=True)

    assert set(fitting_shapes(definition, TABLE, build, {})) == {"x", "y"}
    assert len({tuple(shapes["x"]) for shapes in tried}) == len(tried)
    assert 4 <= len(tried) <= most
    assert (len(tried) > 4) == (most > 4)


def frames(samples: int) -> ex.Net:
    """Return a net that cuts a signal of unknown length into frames of ``samples`` elements."""
    weights = {"conv.weight": np.zeros((4, 1, samples), np.float32)}
    references = {"weight": WeightReference("conv.weight", (4, 1, samples), "float32")}
    arguments = {"in_channels": 1, "out_channels": 4, "kernel_size": (samples,), "stride": (160,), "bias": False}
    conv = OperatorDefinition("nn.Conv1d", "conv", ("x",), ("y",), arguments, weights=references)
    types = {"x": BlobType((None, 1, None), "float32")}
    return ex.Net(NetDefinition.of("frames", [conv], ["x"], ["y"], types, dialect="pnnx", weights=weights), TABLE)


@pytest.mark.spec("I-2", "I-5")
def test_a_net_that_needs_many_samples_is_tried_with_long_inputs() -> None:
    """A net of audio is no problem, since a length of 512 fits; a length that does not fit is called a guess."""
    assert frames(400).example_shapes() == {"x": (1, 1, 512)}
    assert frames(400).check() == []
    net = frames(50_000)
    (problem,) = net.check()
    assert problem.endswith(
        "guessed: x: 1×1×16, because the file leaves these lengths open\n"
        "  fix: if they do not fit, give others: --shape x=1x1x16, or net.assume({'x': (1, 1, 16)})"
    )
    assert net.assume(x=(1, 1, 60_000)).check() == []


def test_lengths_behind_an_unknown_operator_are_no_problems() -> None:
    """Open lengths of an unknown operator's result are unknown, so an operator that they do not fit may still run."""
    definition = NetDefinition.of(
        "n",
        [
            OperatorDefinition("RFFT2D", "transform", ("x",), ("spectrum",)),
            OperatorDefinition("nn.MaxPool2d", "pool", ("spectrum",), ("y",), {"kernel_size": (64, 64)}),
        ],
        ["x"],
        ["y"],
        {"x": BlobType((1, 4, None, None), "float32"), "spectrum": BlobType((1, 4, None, None), "float32")},
        dialect="pnnx",
    )
    problems = ex.Net(definition, TABLE).check()
    assert [problem.partition(":")[0] for problem in problems] == ["unknown operator type RFFT2D"]
