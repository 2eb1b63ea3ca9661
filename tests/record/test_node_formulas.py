"""Formulas of nodes: names and numbers, where they add to the operation's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.record.node_formulas import formula
from explorer.view.model.labels import WIDEST
from explorer.view.model.picture_model import build_model


def tensors(*names: str) -> list[ex.Expr]:
    return [ex.tensor(np.ones((3, 3), "float32"), name=name) for name in names]


def recorded(root: ex.Expr) -> ex.Recording:
    plan = ex.EvalPlan()
    plan.register(root)
    return plan.prepare().recording


def of_root(recording: ex.Recording) -> str:
    return formula(recording, recording.roots[0])


@pytest.mark.spec("V-7")
@pytest.mark.parametrize(
    ("write", "read"),
    [
        (lambda x, b: 0.5 * x, "0.5·x"),
        (lambda x, b: x * 0.5, "0.5·x"),
        (lambda x, b: x * x, "x·x"),
        (lambda x, b: x + b, "x + b"),
        (lambda x, b: b + x, "b + x"),
        (lambda x, b: 1 - x, "1 − x"),
        (lambda x, b: x - 1, "x − 1"),
        (lambda x, b: 2 / x, "2 / x"),
        (lambda x, b: x @ b, "x @ b"),
        (lambda x, b: x**2.5, "x**2.5"),
        (lambda x, b: ex.maximum(x, 0), "max(x, 0)"),
        (lambda x, b: x > b, "x > b"),
        # an unnamed operand is called by its operation: here the order is informative
        (lambda x, b: 1 - ex.exp(x), "1 − exp"),
        (lambda x, b: ex.exp(x) / ex.sin(b), "exp / sin"),
        (lambda x, b: ex.exp(x) + b, "exp + b"),
        # nothing beyond the operation and its edges
        (lambda x, b: ex.exp(x) + ex.sin(b), ""),
        (lambda x, b: ex.exp(x) - ex.exp(b), ""),
        (lambda x, b: ex.exp(x), ""),
        (lambda x, b: ex.sum(x), ""),
    ],
)
def test_a_formula_adds_to_the_name_of_an_operation(write: Callable[..., Any], read: str) -> None:
    assert of_root(recorded(write(*tensors("x", "b")))) == read


def test_a_formula_fits_its_node_and_is_complete_in_the_panel() -> None:
    """Long names are truncated separately on the node, types are kept, and control characters are escaped."""
    long = "a_name_that_nobody_would_give_to_a_weight" * 9
    recording = recorded(ex.add(*tensors(long, "b\n\u202e")))
    model = build_model(recording)
    slot = model.slots.of[recording.roots[0]]
    text = model.texts[model.slot_texts[slot][0]]
    assert text.second.startswith("a_name") or text.second.startswith("a_n")
    assert text.second.endswith("→ 3×3 f32")
    assert text.formula.startswith(f"{long} + b")
    assert not any(sign in text.formula + text.second for sign in "\n\u202e")
    assert model.slot_sizes[slot][0][0] <= WIDEST + 24
