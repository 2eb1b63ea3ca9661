"""Numbered nets, whose operator and weight both contain the number, so that mixed pairs of files are detected."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import explorer as ex
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.definition.definition import WeightReference

TYPES = ("nn.ReLU", "nn.Sigmoid", "nn.Tanh", "nn.SiLU")


def net(number: int, size: int = 64) -> Net:
    """Return a net whose operator type and weight contain its number."""
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
    """Return the number of the net in a file; fail if graph and weights belong to different nets."""
    net = ex.open(path)
    kind = TYPES.index(net["last"].type)
    weights = np.unique(net["fc"].weight.array)
    assert list(weights) == [kind], f"the text of net {kind} with the weights of {weights}"
    return kind
