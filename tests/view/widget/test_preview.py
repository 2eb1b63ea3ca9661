import types

import pytest

import explorer as ex
from explorer.view.widget.preview import PreviewView, is_wanted, shows_view
from explorer.view.widget.widget import GraphView
from tests.support.cells import MODELS
from tests.support.unpacked import unpack

SHOWN = ("ex.explore(y)", "y = f(x)\nplan.explore(theme='dark')", "explore(y)  # the graph", "ex.open(file).explore()")
NOT_SHOWN = (
    "view = ex.explore(y)",
    "ex.explore(y);",
    "ex.explore(y).save('y.html')",
    "ex.explore(y)\nprint(y)",
    "def show():\n    ex.explore(y)",
    "ex.evaluate(y)",
    "%%latex\nexplore(y)",
    "",
)


@pytest.mark.parametrize(
    ("source", "shown"), [*[(each, True) for each in SHOWN], *[(each, False) for each in NOT_SHOWN]]
)
def test_a_cell_shows_the_view_returned_by_its_last_line(source, shown):
    assert shows_view(source) == shown


def test_a_preview_is_shown_only_in_a_notebook(monkeypatch):
    assert not is_wanted()
    running = {"content": {"code": "%time 1\nex.explore(y)"}}
    kernel = types.SimpleNamespace(get_parent=lambda: running)
    shell = types.SimpleNamespace(
        kernel=kernel, events=object(), transform_cell=lambda code: code.replace("%time ", "")
    )
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert is_wanted()
    running["content"]["code"] = "view = ex.explore(y)"
    assert not is_wanted()


@pytest.mark.spec("V-16")
def test_a_preview_omits_what_a_reader_needs_after_the_picture():
    """It has the boxes and texts of a view, but no source texts and no attributes of a file's operators."""
    recording = ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording
    first, whole = (unpack(make(recording).payload) for make in (PreviewView, GraphView))
    assert whole["recording"]["operators"]
    assert any(row["text"] for row in whole["recording"]["sources"])
    assert "operators" not in first["recording"]
    assert [row["text"] for row in first["recording"]["sources"]] == [""] * len(whole["recording"]["sources"])
    assert first["layout"]["texts"] == whole["layout"]["texts"]
    assert [box["text"] for box in first["layout"]["boxes"]] == [box["text"] for box in whole["layout"]["boxes"]]
