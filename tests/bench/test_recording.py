"""Time to write, read and validate a large recording."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from explorer.record import Body, Nodes, Recording, Stage, Type, loads, to_json

pytestmark = pytest.mark.bench

NODES = 100_000


def chain() -> Recording:
    """Return a chain of additions of the same number."""
    nodes = Nodes(
        operation=[0, *[1] * (NODES - 1)],
        kind=["leaf", *["operation"] * (NODES - 1)],
        label=["x", *["add"] * (NODES - 1)],
        type=[0] * NODES,
        operands=[(), *((node,) for node in range(NODES - 1))],
        scope=[0] * NODES,
        source=[-1] * NODES,
        flops=[6] * NODES,
        bytes=[24] * NODES,
        born=[-1] * NODES,
        gone=[-1] * NODES,
        body=[0] * NODES,
        callee=[-1] * NODES,
    )
    return Recording(
        operations=["Source", "Add"],
        types=[Type((2, 3), "float32", "cpu")],
        bodies=[Body("", (0,), (NODES - 1,))],
        nodes=nodes,
        stages=[Stage("record", "record", 0, 0, {"nodes": NODES})],
    )


def best(call: Callable[[], Any], times: int = 5) -> float:
    """Return the minimum of a few times in ms."""
    spent = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return min(spent) * 1000


def test_recording_of_100_000_nodes() -> None:
    """Target: linear time, with validated reading of 100,000 nodes well below a second."""
    recording = chain()
    text = json.dumps(to_json(recording))
    writing, reading = best(lambda: json.dumps(to_json(recording))), best(lambda: loads(text))
    print(f"\n{NODES:,} nodes, {len(text) / 1e6:.1f} MB: written in {writing:.0f} ms, read in {reading:.0f} ms")
    assert loads(text) == recording
