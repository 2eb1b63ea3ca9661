"""Reprs of public objects contain no memory address and are equal in every process, so that notebooks are
comparable."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import ipywidgets  # type: ignore[import-untyped]
import numpy as np
import pytest

import explorer as ex
from explorer import layers, train

ROOT = Path(__file__).parents[2]
PACKAGES = (ex, layers, train, ex.testing, ex.passes)
ADDRESS = re.compile(r"\b0x[0-9a-f]{6,}")
OPAQUE = (type, FunctionType, MethodType, BuiltinFunctionType, ModuleType)


def public_classes() -> list[type]:
    named = {
        value for package in PACKAGES for name in dir(package) if isinstance(value := getattr(package, name), type)
    }
    return sorted(
        (each for each in named if not getattr(each, "_is_protocol", False)), key=lambda each: each.__qualname__
    )


def objects() -> list[Any]:
    """Return one object of each kind that users print, alone and in the containers that a cell may return."""
    x, w = ex.tensor(np.ones((2, 3)), name="x"), ex.tensor(np.ones((3, 4)), name="w")
    value = ex.tanh(x @ w) + 1
    plans = [ex.EvalPlan(), ex.EvalPlan(without=["fuse"])]
    handles = [plan.register(value) for plan in plans]
    compared = plans[0].prepare().compare(plans[1].prepare())
    views = [plans[0].explore(), ex.explore(value), ex.explore(value, direction="right"), compared.explore()]
    closed = ex.explore(value)
    closed.close()
    net = ex.open(ROOT / "assets/digits.pnnx.param")
    traced = ex.function(lambda a: a + a)
    traced(x)
    linear = layers.Linear("linear", 3, 2)
    initializer = layers.Initializer({"linear/bias/parameter": np.ones(2)}, filler=layers.Constant(0.0))
    linear.init(initializer)
    module = train.Module("module", loss=train.CrossEntropy(), optimizer=train.SGD(rate=0.1))
    module.add_node(train.Linear("scores", 3, 2))
    module.attach(seed=0)
    samples = train.ArrayDataset(np.ones((4, 3)), np.zeros(4, int))

    class Diagonal(ex.Data):
        """A square matrix that stores only its diagonal."""

        type = ex.TensorType((2, 2), "float32")

        def evaluate(self) -> Any:
            return np.eye(2, dtype=np.float32)

    return [
        *(value, *plans, *handles, compared, *views, closed, net, net["fc1"], net["fc1"].weights, net["fc1"].weight),
        *(
            traced,
            linear,
            initializer,
            layers.GradCollector(),
            module,
            samples,
            train.DataLoader(samples, batch_size=2),
        ),
        *(Diagonal(), ex.exercise("01.1"), ex.check(ex.tanh), plans[0].recording, plans[0].planned.graph, net.table),
        *(*ex.Rule.rules, *ex.default_passes(), *ex.reason("single_term")),
        *(views, {"a": views[0]}, ipywidgets.VBox(views[:2]), ipywidgets.Tab([views[3]]), (closed, traced, samples)),
        *(getattr(package, name) for package in PACKAGES for name in dir(package) if name[0] != "_"),
    ]


def nested_reprs(value: Any, depth: int, seen: dict[int, Any]) -> list[tuple[str, str]]:
    """Return the class and the repr of an object and, down to a depth, of its public attributes."""
    if isinstance(value, (list, tuple, dict)):
        items = [*value.values()] if isinstance(value, dict) else [*value]
        return [row for item in items[:20] for row in nested_reprs(item, depth, seen)]
    if isinstance(value, OPAQUE) or id(value) in seen or not type(value).__module__.startswith("explorer"):
        return []
    seen[id(value)] = value
    rows = [(type(value).__qualname__, repr(value))]
    for name in dir(value) if depth else ():
        if name[0] != "_":
            try:
                inside = getattr(value, name)
            except (ex.ExplorerError, AssertionError):  # ipywidgets asserts
                continue
            rows += nested_reprs(inside, depth - 1, seen)
    return rows


def test_every_public_class_has_its_own_repr() -> None:
    assert [each for each in public_classes() if each.__repr__ is object.__repr__] == []


def test_no_repr_contains_an_address() -> None:
    values = objects()
    assert [text for value in values if ADDRESS.search(text := repr(value)) and not isinstance(value, OPAQUE)] == []
    rows = nested_reprs(values, 2, {})
    assert len({name for name, _ in rows}) > 80
    assert [row for row in rows if ADDRESS.search(row[1])] == []


@pytest.mark.parametrize("text", ["[view]", "{'a': view}", "ipywidgets.VBox([view])", "compared", "[traced, samples]"])
def test_a_repr_describes_the_object(text: str) -> None:
    x = ex.tensor([1.0, 2.0])
    plan = ex.EvalPlan(title="sum")
    plan.register(x + 1)
    view = plan.prepare().explore()
    other = ex.EvalPlan(without=["fuse"])
    other.register(x + 1)
    names = {"view": view, "ipywidgets": ipywidgets, "traced": ex.function(objects)}
    names["compared"] = other.prepare().compare(other).explore()
    names["samples"] = train.ArrayDataset(np.ones((4, 3)), np.zeros(4, np.int64))
    expected = {
        "[view]": "[<ExpressionView: sum>]",
        "{'a': view}": "{'a': <ExpressionView: sum>}",
        "ipywidgets.VBox([view])": "VBox(children=(<ExpressionView: sum>,))",
        "compared": "<SideBySide of <TiedView: 3 nodes> and <TiedView: 3 nodes>>",
        "[traced, samples]": "[<function objects>, ArrayDataset(4×3 float64, 4 int64)]",
    }
    assert repr(eval(text, names)) == expected[text]


def test_reprs_are_equal_in_every_process() -> None:
    script = "from tests.laws.test_reprs import *; print([each for each in objects() if not isinstance(each, OPAQUE)])"
    texts = [
        subprocess.run(
            [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in "12"
    ]  # fmt: skip
    assert texts[0] == texts[1] != ""
