"""What a notebook keeps of a cell that shows an explorer: picture, text and the widget's state, front end aside."""

import json
from pathlib import Path

import pytest

import explorer as ex
from tests.bench.test_view import planned

MODELS = Path(__file__).parents[2] / "assets" / "models"


def cell(view):
    """The bytes of each part of a view's cell."""
    data, _ = view._repr_mimebundle_()
    state = {name: value for name, value in view.get_state().items() if name not in ("_esm", "_css")}
    return {name: len(json.dumps(part).encode()) for name, part in {**data, "state": state}.items()}


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "encoder"])
def test_a_models_cell_is_small(name):
    """All that a notebook keeps of a model's cell is at most 150 KB, picture, text and stepping together."""
    assert sum(cell(ex.open(MODELS / f"{name}.pnnx.param").explore()).values()) <= 150_000


@pytest.mark.spec("V-7", "V-22")
def test_the_cell_of_a_large_plan_is_small():
    """A plan of 10,000 nodes without scopes is kept in 0.7 MB, its picture and its text in 70 KB."""
    size = cell(planned(10_000).explore())
    assert size["text/plain"] + size["image/svg+xml"] <= 70_000
    assert sum(size.values()) <= 700_000
