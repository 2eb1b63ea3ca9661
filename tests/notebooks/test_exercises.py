"""Exercises of the notebooks: each can be done with what the notebook has defined, and comes out as it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest

import explorer as ex

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def defined(name: str, *needed: str) -> dict[str, Any]:
    """What the cells of a notebook that hold these texts define, run from the top of the notebook's folder."""
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    names: dict[str, Any] = {}
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    found = [source for source in cells if any(text in source for text in needed)]
    assert len(found) >= len(needed)
    for source in found:
        exec(compile(source, f"<{name}>", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOKS)
    assert os.getcwd() == str(NOTEBOOKS)


def said(name: str) -> str:
    """The exercises of a notebook."""
    return str(nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells[-1].source)


@pytest.mark.spec("V-20")
def test_05_stacking_pays_from_some_number_of_small_products_on() -> None:
    """Two products are never stacked; those of 10×10 are from some number on, those of 30×30 are not."""
    names = defined("05_dedup_and_batching", "import explorer as ex", "def product(")

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
def test_07_without_fusion_the_blocks_need_less_memory() -> None:
    """The answer's figures of peak, bound and bytes written are those of the two plans."""
    names = defined("07_memory_and_executors", "import signal", "def norm(")
    plan, apart = names["plan"], ex.EvalPlan(without=["fuse"])
    apart.register(names["h"])
    apart.prepare()
    answer = said("07_memory_and_executors")
    for name in ("peak", "peak_lower_bound"):
        pair = [int(one.recording.stages[-1].counts[name] / 1024) for one in (plan, apart)]
        assert pair[1] < pair[0]
        assert f"from {pair[0]} to {pair[1]} KB" in answer
    for one in (apart, plan):
        assert f"{one.recording.stages[-1].counts['bytes'] / 2**20:.2f} MB" in answer
        assert f"{len(one.recording.schedule.kernels)} kernels" in answer
    assert [one.recording.stages[-1].counts["peak_working"] for one in (apart, plan)] == [0, 128 * 1024]


@pytest.mark.spec("V-20")
def test_08_mobilenet_is_planned_with_drawn_weights_and_refuses_its_convolutions() -> None:
    names = defined("08_a_picture_through_a_classifier", "import explorer as ex", "ex.open(", "def draw_weights")
    net = ex.open("../assets/models/mobilenet_v2.pnnx.param")
    names["draw_weights"](net)
    recording = net.plan((1, 3, 224, 224)).recording
    refused = [d for d in recording.decisions if recording.stages[d.stage].name == "algorithms"]
    assert {d.verdict for d in refused} == {"declined"}
    assert sum(len(d.subjects) for d in refused) == 18


@pytest.mark.spec("V-20")
def test_08_resnet_without_fusion_and_its_first_layer_alone() -> None:
    """The answer's figures are those of the two plans; a part of the net is explored for a shape."""
    names = defined("08_a_picture_through_a_classifier", "import explorer as ex", "def draw_weights")
    net = names["net"] if "net" in names else ex.open("../assets/models/resnet18.pnnx.param")
    names["draw_weights"](net)
    fused, apart = net.plan((1, 3, 224, 224)), net.plan((1, 3, 224, 224), without=["fuse"])
    answer = said("08_a_picture_through_a_classifier")
    counts = [plan.recording.stages[-1].counts for plan in (apart, fused)]
    sizes = [f"{count['peak'] / 2**20:.2f}" for count in counts]
    assert f"{sizes[0]} instead of {sizes[1]} MB" in answer
    kernels = [len(plan.recording.schedule.kernels) for plan in (apart, fused)]
    assert f"{kernels[0]} kernels instead of {kernels[1]}" in answer
    assert counts[1]["bytes"] < counts[0]["bytes"] / 2
    assert counts[1]["peak_working"] - counts[0]["peak_working"] == 256 * 1024
    view = net.cut(["3"], ["13"]).explore((1, 64, 56, 56))
    assert view.recording.stages[-1].name == "buffers"
    assert view.recording.type_text(view.recording.roots[0]) == "1×64×56×56 float32"
