import types

import pytest

from explorer.view.widget.preview import is_wanted, shows_view

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
