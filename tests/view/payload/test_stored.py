"""Stored form of a view: the same on every run, small and complete."""

from __future__ import annotations

import re
from base64 import b64decode

import nbconvert
import nbformat
import numpy as np
import pytest

import explorer as ex
from explorer.record.recording import unmeasured
from explorer.view.payload import stored as stored_views
from explorer.view.payload.stored import MIME, restored, stored
from explorer.view.payload.view_payload import payload


@pytest.fixture
def program():
    x = ex.tensor(np.ones((4, 4), np.float32), name="x")
    return ex.sum(ex.tanh(x * 2) + 1)


@pytest.mark.spec("V-21")
def test_a_stored_view_is_the_payload_without_measured_times(program) -> None:
    """A notebook's output contains the compressed view, with values and without times."""
    view = ex.explore(program)
    data, _ = view._repr_mimebundle_()
    kept = restored(data[MIME])
    plain = unmeasured(view.recording)
    assert kept == payload(plain, position=0)
    assert kept["recording"]["run"] is None
    assert kept["recording"]["leaf_values"]
    assert "run" not in [stage["name"] for stage in kept["recording"]["stages"]]


@pytest.mark.spec("V-21")
def test_a_plan_without_a_run_is_stored_as_initially_sent(program) -> None:
    """The reader's theme is stored; opened boxes and overlays are not."""
    plan = ex.EvalPlan()
    plan.register(program)
    view = plan.prepare().explore()
    opened = payload(view.recording, position=0)
    assert restored(view._repr_mimebundle_()[0][MIME]) == opened
    view.theme = "dark"
    assert restored(view._repr_mimebundle_()[0][MIME]) == payload(view.recording, position=0, theme="dark")
    view.theme = "auto"
    view.overlay({node: float(node) for node in range(len(view.recording.nodes))}, name="score")
    assert restored(view._repr_mimebundle_()[0][MIME]) == opened


@pytest.mark.spec("V-21", "V-22")
def test_a_stored_view_is_the_same_after_every_run(program) -> None:
    """Two runs of a program store the same bytes, without times and addresses."""
    first, second = (ex.explore(program)._repr_mimebundle_()[0] for _ in range(2))
    assert first[MIME] == second[MIME]
    assert first["text/html"] == second["text/html"]


def test_a_measured_batch_is_stored_like_an_unmeasured_one() -> None:
    x = ex.tensor(np.ones((8, 8), np.float32))
    plan = ex.EvalPlan()
    for number in range(6):
        plan.register(ex.sum(ex.tanh(x * float(number))))
    recording = plan.eval().recording
    measured = [decision for decision in recording.decisions if "measured_us" in decision.facts]
    assert measured
    assert not [decision for decision in unmeasured(recording).decisions if "measured_us" in decision.facts]


def test_a_view_that_is_too_large_is_not_stored(program, monkeypatch) -> None:
    monkeypatch.setattr(stored_views, "MAX_BYTES", 100)
    view = ex.explore(program)
    data, _ = view._repr_mimebundle_()
    assert MIME not in data
    assert data["image/svg+xml"].startswith("<svg")
    assert stored(view.payload) is None


@pytest.mark.spec("V-15")
def test_the_image_of_an_output_is_its_picture(program) -> None:
    """The HTML of an output is its picture as an image, which sanitizers keep and which loads nothing."""
    data, _ = ex.explore(program)._repr_mimebundle_()
    assert re.fullmatch(
        r'<img src="data:image/svg\+xml;base64,[\w+/=]+" alt="[^"]*" style="[^"]*"/>', data["text/html"]
    )


def test_latex_is_written_with_pictures(program, monkeypatch) -> None:
    """`ex.outputs.png = True` stores a PNG, which nbconvert's LaTeX supports, instead of the SVG, which it does not."""
    view = ex.explore(program)
    monkeypatch.setattr(ex.outputs, "png", True)
    data, _ = view._repr_mimebundle_()
    assert b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert not {"image/svg+xml", "text/html"} & data.keys()
    output = nbformat.v4.new_output("display_data", data)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("view", outputs=[output])])
    latex, resources = nbconvert.LatexExporter().from_notebook_node(notebook)
    (name,) = resources["outputs"]
    assert name.endswith(".png")
    assert name in latex
    monkeypatch.setattr(ex.outputs, "pictures", False)
    assert "image/png" not in view._repr_mimebundle_()[0]


@pytest.mark.spec("V-22")
def test_one_setting_omits_pictures_from_all_outputs(program, monkeypatch) -> None:
    """`ex.outputs.pictures = False` omits pictures from all outputs, `views` the views; other names are rejected."""
    view = ex.explore(program)
    monkeypatch.setattr(ex.outputs, "pictures", False)
    data, _ = view._repr_mimebundle_()
    assert not {"image/svg+xml", "text/html"} & data.keys()
    assert MIME in data
    monkeypatch.setattr(ex.outputs, "views", False)
    assert MIME not in view._repr_mimebundle_()[0]
    with pytest.raises(TypeError, match="True or False"):
        ex.outputs.pictures = "no"
    with pytest.raises(AttributeError):
        ex.outputs.picture = False
