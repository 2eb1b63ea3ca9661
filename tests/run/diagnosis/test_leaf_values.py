"""Values of leaves before any run: what a view shows for weights without any input."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import FileError
from explorer.net.building.weights import FileStorage
from explorer.record import loads, to_json
from explorer.run.diagnosis import leaf_values as diagnosis
from explorer.run.diagnosis.leaf_values import leaf_value, leaf_values, small_leaf_values
from explorer.run.execution.value_capture import summarize
from explorer.run.recording.recorder import expressions

ASSETS = Path(__file__).parents[3] / "assets"


@pytest.mark.spec("V-6")
def test_weights_are_summarized_without_an_input() -> None:
    """A file's weights have statistics, a histogram and a thumbnail without an input; an input has none."""
    net = ex.open(ASSETS / "digits.pnnx.param")
    plan = net.preview_plan()
    values = leaf_values(plan.planned)
    names = {node: plan.recording.label(node) for node in values}
    [weight] = [node for node, name in names.items() if name == "conv2.weight"]
    array = net["conv2"].weight
    assert values[weight].mean == pytest.approx(float(np.mean(array)))
    assert sum(values[weight].histogram) == np.size(array)
    assert not any(plan.recording.nodes.kind[node] == "input" for node in values)


@pytest.mark.spec("V-6")
def test_the_smallest_weights_are_summarized_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are added from the smallest until one exceeds the number of elements or of weights."""
    plan = ex.open(ASSETS / "digits.pnnx.param").preview_plan()
    assert small_leaf_values(plan.planned) == leaf_values(plan.planned)
    sizes = sorted([math.prod(summary.shape) for summary in leaf_values(plan.planned).values()])
    monkeypatch.setattr(diagnosis, "MAX_ELEMENTS", sum(sizes[:5]))
    assert sorted([math.prod(summary.shape) for summary in small_leaf_values(plan.planned).values()]) == sizes[:5]
    monkeypatch.setattr(diagnosis, "MAX_WEIGHTS", 3)
    assert len(small_leaf_values(plan.planned)) == 3


@pytest.mark.spec("V-6")
def test_a_large_weight_has_its_first_elements_as_text() -> None:
    """A weight with more than 16 elements shows the first 8 in C order; values of a run show none."""
    value = np.arange(36, dtype=np.float32).reshape(6, 6) / 4
    tensor = ex.tensor(value)
    assert leaf_value(tensor).elements == "[0.  , 0.25, 0.5 , 0.75, 1.  , 1.25, 1.5 , 1.75, …]"
    assert leaf_value(ex.tensor(value[0])).elements == "[0.  , 0.25, 0.5 , 0.75, 1.  , 1.25]"
    assert summarize(value).elements == ""
    assert summarize(np.array(["a"] * 20), first=True).elements == "['a', 'a', 'a', 'a', 'a', 'a', 'a', 'a', …]"


@pytest.mark.spec("V-6", "V-14")
def test_a_saved_page_has_the_values_of_small_weights(tmp_path: Path) -> None:
    """A page cannot request them later; it is also saved if the weights are missing."""
    view = ex.open(ASSETS / "digits.pnnx.param").explore()
    view.save(tmp_path / "view.html")
    assert view.recording.leaf_values == {}
    plain = len((tmp_path / "view.html").read_text())
    assert plain == len(view.to_html())
    shutil.copy(ASSETS / "digits.pnnx.param", tmp_path)
    alone = ex.open(tmp_path / "digits.pnnx.param").explore()
    alone.save(tmp_path / "alone.html")
    assert len((tmp_path / "alone.html").read_text()) < plain - 2000


def test_displaying_a_weight_keeps_nothing_in_memory() -> None:
    plan = ex.open(ASSETS / "digits.pnnx.param").preview_plan()
    leaf_values(plan.planned)
    weights = [node.storage for node in expressions(plan.planned) if isinstance(node, ex.Tensor)]
    arrays = [storage._array for storage in weights if isinstance(storage, FileStorage)]
    assert len(arrays) == 12
    assert arrays == [None] * 12


def test_a_weight_with_a_missing_file_reports_it(tmp_path: Path) -> None:
    shutil.copy(ASSETS / "digits.pnnx.param", tmp_path)
    net = ex.open(tmp_path / "digits.pnnx.param")
    with pytest.raises(FileError, match="the file is missing"):
        leaf_values(net.preview_plan().planned)
    view = net.explore()
    node = view.recording.nodes.label.index("conv2.weight")
    assert "the file is missing" in view._value(node)["problem"]


@pytest.mark.spec("V-6", "V-14")
def test_displayed_values_of_weights_are_saved(tmp_path: Path) -> None:
    """A view's saved page and data contain the values of the weights that the user displayed."""
    view = ex.open(ASSETS / "digits.pnnx.param").explore()
    node = view.recording.nodes.label.index("conv2.weight")
    answer = view._value(node)
    view.save(tmp_path / "view.json")
    saved = loads((tmp_path / "view.json").read_text())
    assert list(saved.leaf_values) == [node]
    assert saved.leaf_values[node].mean == answer["summary"]["mean"]


def test_a_value_of_a_missing_node_raises_an_error() -> None:
    plan = ex.open(ASSETS / "digits.pnnx.param").preview_plan()
    plan.recording.leaf_values = leaf_values(plan.planned)
    plain = to_json(plan.recording)
    plain["leaf_values"]["9999"] = next(iter(plain["leaf_values"].values()))
    with pytest.raises(ValueError, match="leaf_values: 9999 is no row of nodes"):
        loads(json.dumps(plain))
