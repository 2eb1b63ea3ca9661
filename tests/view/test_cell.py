"""Size of a cell that shows a view in a notebook: picture, text and the widget's state, without the front end."""

import pytest

import explorer as ex
from tests.support.cells import MODELS, cell
from tests.support.large import planned


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "encoder"])
def test_a_models_cell_is_small(name):
    """All that a notebook keeps of a model's cell is at most 150 KB, picture, text and stepping together.

    The widget's state, which the browser gets, is kept only by tools that are asked to keep it.
    """
    size = cell(ex.open(MODELS / f"{name}.pnnx.param").explore())
    assert size.pop("state") <= 100_000
    assert sum(size.values()) <= 95_000


@pytest.mark.spec("V-7", "V-22")
def test_the_cell_of_a_large_plan_is_small():
    """The cell of a plan of 10,000 nodes without scopes takes 0.4 MB, its picture and text 70 KB."""
    size = cell(planned(10_000).explore())
    assert size["text/plain"] + size["image/svg+xml"] <= 70_000
    assert size.pop("state") <= 780_000
    assert sum(size.values()) <= 440_000
