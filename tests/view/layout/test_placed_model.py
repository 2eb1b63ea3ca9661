"""The boxes that are open at first: as many levels as fit legibly into a cell, a page or a picture."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import explorer as ex
from explorer.view.export.html_page import html
from explorer.view.layout import placed_model
from explorer.view.layout.placed_model import CELL, PAGE, PICTURE, draw
from explorer.view.layout.placement import compose
from explorer.view.payload.view_payload import payload
from tests.support.cells import MODELS
from tests.support.unpacked import unpack
from tests.view import sample


def fits(size: tuple[int, int], frame: tuple[int, int, float]) -> bool:
    return all(length * frame[2] <= room for length, room in zip(size, frame[:2], strict=True))


@pytest.mark.spec("V-24", headline=True)
@pytest.mark.parametrize(
    "name", ["encoder.onnx", "lstm.onnx", "mobilenet_v2.onnx", "resnet18.onnx", "convbn.pnnx.param"]
)
def test_a_model_opens_on_as_many_levels_as_fit_legibly(name: str) -> None:
    """Open boxes level by level while the whole graph fits legibly; show the outermost parts of a larger graph."""
    drawing = draw(ex.open(MODELS / name).preview_plan().recording)
    for frame in (CELL, PAGE, PICTURE):
        opened = drawing.open_boxes(frame)
        is_whole = fits(compose(drawing.model, drawing.recorded, opened).size, frame)
        # One box of these contains nearly everything, so it is open, too.
        hides_most = name in ("lstm.onnx", "mobilenet_v2.onnx") and frame in (CELL, PAGE)
        assert is_whole or opened == set(drawing.model.tree.bodies) or hides_most
        wider = drawing.layouts.opened()
        assert opened <= wider
        if opened != wider:
            assert not fits(compose(drawing.model, drawing.recorded, wider).size, frame)


@pytest.mark.spec("V-24")
def test_a_box_that_contains_nearly_everything_is_open() -> None:
    """The blocks of MobileNet are visible instead of one box "features", and stay closed themselves."""
    drawing = draw(ex.open(MODELS / "mobilenet_v2.onnx").preview_plan().recording)
    boxes = drawing.model.tree.boxes
    for frame in (CELL, PAGE):
        assert [boxes[box].label for box in sorted(drawing.open_boxes(frame) - {0})] == ["features"]


@pytest.mark.spec("V-24")
def test_a_page_has_the_open_boxes_of_a_cell_and_of_a_large_window() -> None:
    """A page that fills a large window shows the blocks of the encoder, which do not fit into a cell."""
    recording = ex.open(MODELS / "encoder.onnx").preview_plan().recording
    drawing = draw(recording)
    in_page, in_cell = (drawing.open_boxes(frame) for frame in (PAGE, CELL))
    assert in_cell < in_page
    data = re.search(r'id="explorer-data">(.*?)</script>', html(recording), re.DOTALL)
    assert data is not None
    page = json.loads(data[1])
    for shown in (page, payload(recording)):
        assert {box for box, row in enumerate(unpack(shown["layout"])["boxes"]) if row["open"]} == in_cell
    assert page["layout"]["page"] == {"room": list(PAGE[:2]), "boxes": sorted(in_page - in_cell)}


def test_a_small_graph_is_open_as_a_whole() -> None:
    """All boxes of a program that fits are open; depth and boxes that a reader chooses are not changed."""
    drawing = draw(sample.transformer(1))
    if fits(compose(drawing.model, drawing.layouts, drawing.layouts.opened()).size, PICTURE):
        assert drawing.open_boxes(PICTURE) == drawing.layouts.opened()
    view = ex.explore(ex.tanh(ex.tensor([1.0])), run=False, depth=0)
    assert view.depth == 0


def test_a_cell_shows_more_than_an_input_and_one_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open a level that does not fit if the graph would otherwise show fewer than four items."""

    @ex.function
    def chain(x: ex.Expr) -> ex.Expr:
        for step in range(7):
            x = ex.tanh(x @ ex.tensor(np.eye(2) * (step + 2))) if step % 2 else ex.exp(x) + step
        return x

    drawing = draw(ex.explore(chain(ex.tensor(np.ones((2, 2)))), run=False).recording)
    frame = 300, 100, 0.6
    assert drawing.open_boxes(frame) == set(drawing.model.tree.bodies)
    monkeypatch.setattr(placed_model, "CELL", frame)
    opened = drawing.open_boxes(frame)
    assert opened > set(drawing.model.tree.bodies)
    assert not fits(compose(drawing.model, drawing.recorded, opened).size, frame)
