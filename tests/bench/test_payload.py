"""Size of a recording in a page: packed by column, compared with gzip of plain JSON and of columns."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from explorer.record import to_json
from explorer.record.gc_pause import gc_paused
from explorer.view.layout.placed_model import draw
from explorer.view.payload.columns import pack
from explorer.view.payload.view_payload import layout_json
from tests.bench.contest import table
from tests.support.large import planned

pytestmark = [pytest.mark.bench]

MODELS = Path(__file__).parents[2] / "assets" / "models"


def spent(act: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its CPU seconds."""
    begin = time.process_time()
    value = act()
    return value, time.process_time() - begin


def text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def inflated(size: int) -> str:
    """Return the size in KB of compressed base64 text after decompression."""
    return f"{size * 4 / 3000:,.0f}"


@pytest.mark.parametrize("name", ["resnet18", "encoder", "10000", "100000"])
def test_columns_and_gzip(name: str) -> None:
    """Print the KB of the recording with its complete layout, and the CPU seconds to serialize them."""
    plan = planned(int(name)) if name.isdigit() else ex.open(MODELS / f"{name}.pnnx.param").preview_plan()
    recording = plan.recording
    with gc_paused():
        layout = layout_json(recording, draw(recording))
        columns, packing = spent(lambda: text([pack(recording), pack(layout)]))
        plain, writing = spent(lambda: text([to_json(recording), layout]))
        columns_gzip, compressing = spent(lambda: gzip.compress(columns, 6))
        plain_gzip, compressing_plain = spent(lambda: gzip.compress(plain, 6))
    rows = [
        ["columns", f"{len(columns) / 1000:,.0f}", f"{packing:.2f}"],
        ["columns, gzip", inflated(len(columns_gzip)), f"{packing + compressing:.2f}"],
        ["plain", f"{len(plain) / 1000:,.0f}", f"{writing:.2f}"],
        ["plain, gzip", inflated(len(plain_gzip)), f"{writing + compressing_plain:.2f}"],
    ]
    print(table(f"payload of {name}", ["", "KB", "CPU s"], rows, ["numpy"]))
    assert len(rows) == 4
