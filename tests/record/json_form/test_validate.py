"""Every row number in a recording must refer to an existing row, in whichever field it occurs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer import layers
from explorer.record import from_json, to_json

Plain = dict[str, Any]
SEVERAL = 12
"""members of a batch, so that the recording has groups"""


@pytest.fixture(scope="module")
def text() -> str:
    """Return the JSON of a trained layer's and a batch's recording after a run, with rows in all tables."""
    layer = layers.Linear("l", 3, 2, policies=[layers.PUpdate, layers.PFeedbackOutput], train=True)
    layer.init(layers.Initializer(filler=layers.Constant(1.0)))
    x = ex.tensor(np.ones((4, 3), np.float32), name="x")
    y = ex.tanh(layer(x)) * 1
    back = layer.feed_backward(np.ones((4, 2), np.float32))
    w = ex.tensor(np.eye(3, dtype=np.float32), name="w")
    plan = ex.EvalPlan(record="values")
    for root in (y, back, *[ex.tanh(ex.tensor(np.full(3, n, np.float32)) @ w) for n in range(SEVERAL)]):
        plan.register(root)
    return json.dumps(to_json(plan.eval().recording))


REFERENCES = [
    (("nodes", "operation", 0), "operations", 0),
    (("nodes", "type", 0), "types", 0),
    (("nodes", "operands", -1, 0), "nodes", 0),
    (("nodes", "scope", 0), "scopes", 0),
    (("nodes", "source", 0), "sources", -1),
    (("nodes", "born", 0), "decisions", -1),
    (("nodes", "gone", 0), "decisions", -1),
    (("nodes", "body", 0), "bodies", 0),
    (("nodes", "callee", 0), "bodies", -1),
    (("scopes", -1, "parent"), "scopes", -1),
    (("bodies", 0, "outputs", 0), "nodes", 0),
    (("bodies", 0, "inputs"), "nodes", 0),
    (("decisions", 0, "stage"), "stages", 0),
    (("decisions", 0, "subjects", 0), "nodes", 0),
    (("decisions", 0, "produced"), "nodes", 0),
    (("substitutions", 0, 0), "decisions", 0),
    (("substitutions", 0, 1), "nodes", 0),
    (("substitutions", 0, 2), "nodes", 0),
    (("groups", 0, "decision"), "decisions", 0),
    (("groups", 0, "members", 0), "nodes", 0),
    (("gradients", 0, "node"), "nodes", 0),
    (("gradients", 0, "backward", 0), "nodes", 0),
    (("gradients", 0, "saved"), "nodes", 0),
    (("layers", 0, "scopes", 0), "scopes", 0),
    (("ports", 0, "scope"), "scopes", 0),
    (("ports", 0, "node"), "nodes", 0),
    (("schedule", "kernels", 0, "nodes", 0), "nodes", 0),
    (("schedule", "kernels", 0, "ready_candidates", 0), "nodes", 0),
    (("schedule", "kernels", 0, "waiting"), "nodes", 0),
    (("schedule", "kernels", 0, "frees"), "nodes", 0),
    (("schedule", "kernels", 0, "buffer"), "buffers", -1),
    (("run", "steps", 0, "kernel"), "kernels", 0),
]
"""where a row number occurs, the table that it refers to, and its minimum"""


def size(plain: Plain, table: str) -> int:
    held = {"nodes": plain["nodes"]["operation"], **{name: plain["schedule"][name] for name in ("buffers", "kernels")}}
    return len(held.get(table, plain.get(table)))


def put(plain: Plain, path: tuple[Any, ...], number: int) -> None:
    """Set a number, or a list of it if the field is a list."""
    holder: Any = plain
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = [number] if isinstance(holder[path[-1]], list) else number


@pytest.mark.parametrize(("path", "table", "lowest"), REFERENCES, ids=lambda value: str(value)[:40])
def test_a_number_must_refer_to_an_existing_row(text: str, path: tuple[Any, ...], table: str, lowest: int) -> None:
    """One above the last row, or one below the minimum, raises an error with the field."""
    plain = json.loads(text)
    assert from_json(plain)
    for number in (size(plain, table), lowest - 1):
        wrong = json.loads(text)
        put(wrong, path, number)
        with pytest.raises(ValueError, match=rf"{path[0]}(.|\n)*{number} is no row of (schedule\.)?{table}"):
            from_json(wrong)


@pytest.mark.parametrize("path", [("schedule", "kernels", 0, "nodes"), ("groups", 0, "members")], ids=str)
def test_a_kernel_and_a_group_must_have_a_node(text: str, path: tuple[Any, ...]) -> None:
    """An empty list raises an error with the field, before a view reads its last node."""
    wrong: Any = json.loads(text)
    holder = wrong
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = []
    with pytest.raises(ValueError, match=rf"{path[0]}(.|\n)*is empty"):
        from_json(wrong)


def test_tables_keyed_by_node_must_refer_to_existing_nodes(text: str) -> None:
    """Attributes and values are keyed by node number, and facts refer to nodes."""
    plain = json.loads(text)
    nodes = size(plain, "nodes")
    assert plain["run"]["values"]
    assert plain["nodes"]["attributes"]
    for holder in ("run", "nodes"):
        wrong = json.loads(text)
        table = wrong[holder]["values" if holder == "run" else "attributes"]
        table[str(nodes)] = next(iter(table.values()))
        with pytest.raises(ValueError, match=f"{nodes} is no row of nodes"):
            from_json(wrong)
    wrong = json.loads(text)
    wrong["decisions"][0]["facts"]["more"] = [{"node": nodes}]
    with pytest.raises(ValueError, match=f"more.*{nodes} is no row of nodes"):
        from_json(wrong)


@pytest.mark.parametrize(("depth", "fits"), [(8, True), (9, False)])
def test_the_nesting_of_facts_is_limited(text: str, depth: int, fits: bool) -> None:
    plain = json.loads(text)
    fact: Any = 1
    for _ in range(depth):
        fact = [fact]
    plain["decisions"][0]["facts"]["more"] = fact
    if fits:
        from_json(plain)
    else:
        with pytest.raises(ValueError, match="nested more than 8 deep"):
            from_json(plain)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_numbers_must_be_finite_in_the_plain_form_too(text: str, number: float) -> None:
    plain = json.loads(text)
    plain["run"]["micros"] = number
    with pytest.raises(ValueError, match="micros: expected a number"):
        from_json(plain)


@pytest.mark.parametrize("number", [10**400, -(10**400), [1, 10**400]])
def test_a_fact_with_a_unit_must_be_a_displayable_number(text: str, number: Any) -> None:
    """Byte counts of hundreds of digits raise an error with the fact when a recording is read."""
    recording = json.loads(text)
    recording["decisions"][0]["facts"]["saved_bytes"] = number
    with pytest.raises(ValueError, match="saved_bytes"):
        from_json(recording)
