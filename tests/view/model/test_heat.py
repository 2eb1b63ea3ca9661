"""Heat metrics: every payload contains them; custom metrics are checked when they are registered and computed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

import explorer as ex
from explorer.view.model.heat import METRICS, heat_json
from explorer.view.payload.view_payload import payload
from tests.support.refusals import refused
from tests.support.unpacked import unpack
from tests.view.sample import mlp


@pytest.fixture(autouse=True)
def table() -> Iterator[None]:
    saved = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(saved)


@pytest.mark.spec("V-13")
def test_the_payload_contains_the_values_of_a_custom_metric() -> None:
    recording = mlp()
    ex.register_heat("own intensity", lambda rec, node: rec.nodes.flops[node] / 8, unit="flops/B", text="reuse")
    rows = unpack(payload(recording)["heat"])
    assert {row["name"] for row in rows if row["values"] is None} == {"time", "flops", "bytes", "flops/byte"}
    assert rows[-1] == {
        "name": "own intensity",
        "unit": "flops/B",
        "row": "",
        "text": "reuse",
        "values": [count / 8 for count in recording.nodes.flops],
        "per": None,
        "boxes": "sum",
    }


@pytest.mark.spec("V-13")
def test_the_payload_contains_both_parts_of_a_ratio() -> None:
    recording = mlp()
    nodes = recording.nodes
    ex.register_heat("flops per byte", lambda r, n: r.nodes.flops[n], per=lambda r, n: r.nodes.bytes[n], unit="flops/B")
    row = unpack(payload(recording)["heat"])[-1]
    assert (row["values"], row["per"]) == ([*nodes.flops], [*nodes.bytes])
    with refused(ex.DeclarationError, "two for a ratio"):
        ex.register_heat("n", lambda r, n: 1, per=2, unit="")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, None, "3"])
def test_an_invalid_value_is_reported_with_its_node(value: object) -> None:
    ex.register_heat("odd", lambda rec, node: value, unit="")  # type: ignore[arg-type, return-value]
    with pytest.raises(ValueError, match=r"'odd' gives .* for node 0 \(.*\n.*must return a finite number"):
        heat_json(mlp())


def test_only_custom_metrics_can_be_replaced() -> None:
    ex.register_heat("mine", lambda rec, node: 1, unit="")
    with refused(ex.DeclarationError, "mine", "replace=True"):
        ex.register_heat("mine", lambda rec, node: 2, unit="")
    ex.register_heat("mine", lambda rec, node: 2, unit="", replace=True)
    (row,) = [row for row in heat_json(mlp()) if row["name"] == "mine"]
    assert set(row["values"]) == {2}
    with refused(ex.DeclarationError, "time", "flops", "bytes"):
        ex.register_heat("time", lambda rec, node: 2, unit="", replace=True)
    for wrong in ({"name": ""}, {"of": None}):
        with refused(ex.DeclarationError, "a name, and a function"):
            ex.register_heat(**{"name": "n", "of": len, "unit": "", **wrong})  # type: ignore[arg-type]
    with refused(ex.OperandError, "unit"):
        ex.register_heat("n", lambda rec, node: 1, unit=3)  # type: ignore[arg-type]
