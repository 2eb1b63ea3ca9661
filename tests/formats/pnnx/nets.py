"""Nets of one PNNX operator, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.formats.pnnx.operators import TABLE
from explorer.net import Net
from explorer.net.definition.definition import NetDefinition, OperatorDefinition, WeightReference


def net_of(
    type: str,
    inputs: int,
    arguments: Mapping[str, Any] | None = None,
    weights: Mapping[str, Any] | None = None,
    outputs: int = 1,
    names: Mapping[str, str] | None = None,
) -> Net:
    """Return a net of one operator."""
    held = {f"op.{name}": np.asarray(array) for name, array in (weights or {}).items()}
    declared = {
        name: WeightReference(f"op.{name}", held[f"op.{name}"].shape, held[f"op.{name}"].dtype.name)
        for name in weights or {}
    }
    reads, makes = tuple(f"x{i}" for i in range(inputs)), tuple(f"y{i}" for i in range(outputs))
    operator = OperatorDefinition(type, "op", reads, makes, arguments or {}, names or {}, declared)
    return Net(NetDefinition.of("one", [operator], reads, makes, weights=held), TABLE)


def computed(type: str, *operands: Any, outputs: int = 1) -> list[Any]:
    """Return the results of one operator; arrays are inputs of the net, other operands constants in the file."""
    names = tuple(f"x{place}" for place in range(len(operands)))
    lines = [
        OperatorDefinition("prim::Constant", f"c{name}", (), (name,), {"value": operand})
        for name, operand in zip(names, operands, strict=True)
        if not isinstance(operand, np.ndarray)
    ]
    arrays = {name: each for name, each in zip(names, operands, strict=True) if isinstance(each, np.ndarray)}
    makes = tuple(f"y{place}" for place in range(outputs))
    operator = OperatorDefinition(type, "op", names, makes)
    result = Net(NetDefinition.of("one", [*lines, operator], [*arrays], makes), TABLE).run(*arrays.values())
    return [*result.values()] if isinstance(result, dict) else [result]
