"""Example values for unknown lengths, tried until the operators match, with fewer attempts for larger nets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import explorer as ex
from explorer.core.types.tensor_type import Shape
from explorer.formats.pnnx.operators import TABLE
from explorer.net.building.builder import Build
from explorer.net.building.example_shapes import fitting_shapes
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition


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
