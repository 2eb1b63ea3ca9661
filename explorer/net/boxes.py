"""In which boxes operators stand: those of their names, and of the operators around them where a name says nothing."""

from __future__ import annotations

import re
from typing import TypeAlias

from explorer.net.definition import NetDefinition, OperatorDefinition

Path: TypeAlias = tuple[str, ...]
_GENERATED = re.compile(r"(?:torch|F|Tensor|aten|prim|pnnx)[.:].*|(?:convbn[123]d|linearbn|pnnx_[a-z]+|pnnx)_[0-9]+")
"""names that an exporter made up: their dots are no boxes"""


def box_paths(definition: NetDefinition) -> dict[str, Path]:
    """The boxes of every operator by its name, outermost first; the last is the operator's own.

    The definition tells them, or a name such as ``layer1.0.relu``. An operator whose name was made up stands in the
    innermost box that it lies inside of: it reads, through others, what the box makes, and the box reads what it makes.
    """
    named = {operator.name: _is_placed(operator) for operator in definition.operators}
    paths = {operator.name: _path(operator, named[operator.name]) for operator in definition.operators}
    if all(named.values()):
        return paths
    boxes: dict[Path, int] = {}
    for path in paths.values():
        for depth in range(1, len(path)):
            boxes.setdefault(path[:depth], len(boxes))
    if not boxes:
        return paths
    own = {name: sum(1 << boxes[path[:depth]] for depth in range(1, len(path))) for name, path in paths.items()}
    above, below = _reach(definition, own)
    known = sorted(boxes, key=lambda path: (-len(path), boxes[path]))
    for name, yes in named.items():
        around = above[name] & below[name]
        if not yes and around:
            paths[name] = (*next(path for path in known if around >> boxes[path] & 1), name)
    return paths


def _is_placed(operator: OperatorDefinition) -> bool:
    return bool(operator.boxes) if operator.boxes is not None else not _GENERATED.fullmatch(operator.name)


def _path(operator: OperatorDefinition, placed: bool) -> Path:
    if operator.boxes is not None:
        return (*operator.boxes, operator.name.rpartition("/")[2] or operator.name)
    return tuple(part or "." for part in operator.name.split(".")) if placed else (operator.name,)


def _reach(definition: NetDefinition, own: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """For each operator the boxes, as bits, of what it reads through others, and of what reads it through others."""
    above, below = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    order = definition.topological_order
    edges = [
        (producer, operator.name)
        for operator in order
        for blob in operator.inputs
        if (producer := definition.blobs[blob].producer) is not None
    ]
    for producer, reader in edges:
        above[reader] |= above[producer] | own[producer]
    for producer, reader in reversed(edges):
        below[producer] |= below[reader] | own[reader]
    return above, below
