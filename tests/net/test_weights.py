"""The weights of a net: where they stand in its graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net

DIGITS = Path(__file__).parents[2] / "assets" / "digits.pnnx.param"


@pytest.mark.spec("I-15", "V-7")
def test_a_weight_stands_in_its_operators_box_whoever_touched_it() -> None:
    """A weight that was read or replaced before the net was built is drawn inside its operator, as any other."""
    net, other = ex.open(DIGITS), ex.open(DIGITS)
    other["fc1"].weight = np.array(other["fc1"].weight.array)
    assert other["conv2"].bias.scope is None

    def boxes(net: Net) -> dict[str, str]:
        recording = net.plan((1, 1, 8, 8)).recording
        nodes, scopes = recording.nodes, recording.scopes
        leaves = [n for n in range(len(nodes)) if nodes.kind[n] == "leaf"]
        return {nodes.label[n]: scopes[nodes.scope[n]].name for n in leaves}

    assert boxes(other) == boxes(net)
    assert boxes(net)["fc1.weight"] == "fc1"
