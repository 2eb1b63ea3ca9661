"""Real models exported with PNNX, with seeded weights and the values that torch computes for them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from assets import seeded
from explorer.formats import pnnx
from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from tests.formats.reference import Array, seeded_net

MODELS = Path(__file__).parents[2] / "assets" / "models"
SAME = {"convbn_opt0": "convbn_opt1"}
"""pnnx writes other operators at level 0 than at level 1, but the same names of operands"""
reference = np.load(MODELS / "reference.npz")


def opened(name: str) -> Net:
    """Return the net of a model with its seeded weights."""
    return seeded_net(pnnx.read(MODELS / f"{name}.pnnx.param"), TABLE)


def expected(name: str, what: str) -> Array:
    """Return a reference array: "inputs", "output", or "names" and statistics of the operands."""
    return np.asarray(reference[f"{SAME.get(name, name)}/{what}"])


def inputs(net: Net, name: str) -> dict[str, Array]:
    """Return the inputs of the reference computation."""
    given = json.loads(expected(name, "inputs").item())
    return {
        blob: seeded.given(f"input{index}", each["shape"], each["dtype"], each["below"])
        for index, (blob, each) in enumerate(zip(net.inputs, given, strict=True))
    }
