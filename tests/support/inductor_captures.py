"""Stored captures of Inductor, so that its adapter's reading is tested without torch."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from explorer.compilers.adapters.inductor.rows import Capture, Frame, Graph, Loop, Node
from explorer.record import SourceText

STORED = Path(__file__).parents[1] / "compilers" / "stored"


def stored_capture(name: str) -> Capture:
    """Return the capture in stored/inductor_NAME.json.gz, which assets/inductor_captures.py writes."""
    plain = json.loads(gzip.decompress((STORED / f"inductor_{name}.json.gz").read_bytes()))
    plain["graphs"] = [_graph(graph) for graph in plain["graphs"]]
    plain["texts"] = [SourceText(**_tuples(text)) for text in plain["texts"]]
    plain["loops"] = [Loop(**_tuples(loop)) for loop in plain["loops"]]
    return Capture(**_tuples(plain))


def _graph(plain: dict[str, Any]) -> Graph:
    nodes = plain["nodes"]
    for node in nodes or ():
        node["frames"] = [Frame(**frame) for frame in node["frames"]]
    return Graph(
        **_tuples(plain) | {"nodes": nodes if nodes is None else tuple(Node(**_tuples(node)) for node in nodes)}
    )


def _tuples(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: _tuple(value) for name, value in plain.items()}


def _tuple(value: Any) -> Any:
    if isinstance(value, dict):
        return _tuples(value)
    return tuple(_tuple(each) for each in value) if isinstance(value, list) else value
