"""Nets of which a mixed pair of files would show: operator and weight tell which net it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.definition.definition import WeightReference

TYPES = ("nn.ReLU", "nn.Sigmoid", "nn.Tanh", "nn.SiLU")


def net(number: int, size: int = 64) -> Net:
    """A net whose operator type and whose weight both are its number."""
    weight = WeightReference("fc.weight", (size, size), "float32")
    operators = [
        OperatorDefinition(
            "nn.Linear",
            "fc",
            ("x",),
            ("h",),
            {"bias": False, "in_features": size, "out_features": size},
            weights={"weight": weight},
        ),
        OperatorDefinition(TYPES[number], "last", ("h",), ("y",)),
    ]
    weights = {"fc.weight": np.full((size, size), number, np.float32)}
    return Net(NetDefinition.of("n", operators, ["x"], ["y"], weights=weights, dialect="pnnx"), TABLE)


def number(path: Path) -> int:
    """The number of the net in a file; fails where text and weights are not of one net."""
    net = ex.open(path)
    kind = TYPES.index(net["last"].type)
    weights = np.unique(net["fc"].weight.array)
    assert list(weights) == [kind], f"the text of net {kind} with the weights of {weights}"
    return kind
