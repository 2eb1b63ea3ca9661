"""The boxes that are open at first: as many levels as fit legibly into a cell or a picture."""

from __future__ import annotations

import numpy as np
import pytest

import explorer as ex
from explorer.view.layout import placed_model
from explorer.view.layout.placed_model import CELL, PICTURE, draw
from explorer.view.layout.placement import compose
from tests.support.cells import MODELS
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
    for frame in (CELL, PICTURE):
        opened = drawing.open_boxes(frame)
        is_whole = fits(compose(drawing.model, drawing.layouts, opened).size, frame)
        assert is_whole or opened == set(drawing.model.tree.bodies)
        wider = drawing.layouts.opened()
        assert opened <= wider
        if opened != wider:
            assert not fits(compose(drawing.model, drawing.layouts, wider).size, frame)


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
