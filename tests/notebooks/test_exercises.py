"""Claims in notebooks next to their exercises are true; tests/course tests the exercises themselves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

import explorer as ex

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def defined(name: str, *needed: str) -> dict[str, Any]:
    """Return what the cells with these strings define, run in order in the notebook's folder."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    names: dict[str, Any] = {}
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    results = [source for source in cells if any(text in source for text in needed)]
    assert len(results) >= len(needed)
    for source in results:
        exec(compile(source, f"<{name}>", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOKS)
    assert os.getcwd() == str(NOTEBOOKS)


@pytest.mark.spec("V-20")
def test_stacking_pays_off_from_some_number_of_small_products() -> None:
    """Two products are never stacked; 10×10 ones are from some number on, 30×30 ones are not."""
    names = defined("08_dedup_and_batching", "import explorer as ex", "def product(")

    def stacked(size: int, calls: int) -> bool:
        plan = ex.EvalPlan()
        for _ in range(calls):
            plan.register(names["product"](names["drawn"](size, size), names["drawn"](size, size)))
        recording = plan.prepare().recording
        (decision,) = [decision for decision in recording.decisions if decision.rule == "Batch"]
        assert (decision.verdict == "applied") is (decision.facts["together_us"] < decision.facts["separate_us"])
        return bool(decision.verdict == "applied")

    assert not any(stacked(size, 2) for size in (3, 10, 30, 100, 300))
    paid = [stacked(10, calls) for calls in range(2, 24)]
    assert paid == sorted(paid)
    assert paid[-1]
    assert not any(stacked(30, calls) for calls in (4, 16, 64, 256))


@pytest.mark.spec("V-20")
def test_resnet_needs_slightly_less_memory_without_fusion() -> None:
    """The difference is the block's working memory, as the notebook states; a part of the net is explored for a
    shape."""
    names = defined("12_a_picture_through_a_classifier", "import explorer as ex", "resnet18.pnnx", "def draw_weights")
    net = names["net"]
    names["draw_weights"](net)
    fused, apart = net.plan((1, 3, 224, 224)), net.plan((1, 3, 224, 224), without=["fuse"])
    counts = [plan.recording.stages[-1].counts for plan in (apart, fused)]
    assert 0.9 * counts[1]["peak"] < counts[0]["peak"] < counts[1]["peak"]
    assert counts[1]["bytes"] < counts[0]["bytes"] / 2
    assert counts[1]["peak_working"] - counts[0]["peak_working"] == 256 * 1024
    view = net.cut(["3"], ["13"]).explore((1, 64, 56, 56))
    assert view.recording.type_text(view.recording.roots[0]) == "1×64×56×56 float32"
