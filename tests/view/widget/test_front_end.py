"""Widgets whose cells run again, in the kernel, without a browser."""

from collections.abc import Callable

import ipywidgets
import pytest
from IPython.core.interactiveshell import InteractiveShell
from ipywidgets.widgets.widget import _instances

from explorer.reports import compare
from explorer.view.widget import front_end
from explorer.view.widget.widget import GraphView
from tests.view import sample


class Kernel:
    """Kernel with only the current request."""

    cell = "a"

    def get_parent(self):
        return {"metadata": {"cellId": self.cell}}


@pytest.fixture
def run(monkeypatch) -> Callable[[str, str], None]:
    """Return a function that runs code as the cell with an id."""
    shell = InteractiveShell()
    shell.kernel = Kernel()
    shell.user_ns.update(new=lambda: GraphView(sample.mlp()), ipywidgets=ipywidgets, show=GraphView._repr_mimebundle_)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    cells = front_end.Cells()
    monkeypatch.setattr(front_end, "_cells", lambda: cells)

    def run_cell(cell, code):
        shell.kernel.cell = cell
        shell.run_cell(code, cell_id=cell).raise_error()

    run_cell.names = shell.user_ns
    return run_cell


@pytest.mark.spec("V-16")
def test_a_view_closed_by_its_cell_can_be_shown_again(run):
    run("a", "view = new(); show(view)")
    run("a", "held = view; view = new(); show(view)")
    count = len(_instances)
    for _ in range(5):
        run("a", "view = new(); show(view)")
    assert len(_instances) == count
    held = run.names["held"]
    assert (held.comm, held.layout.comm) == (None, None)
    held.step = 3
    box = ipywidgets.VBox([held])
    assert box.get_state()["children"] == [f"IPY_MODEL_{held.model_id}"]
    assert (held.get_state()["step"], held.layout.comm is None) == (3, False)


@pytest.mark.spec("V-16")
@pytest.mark.parametrize(
    "holder",
    [
        "ipywidgets.VBox([view])",
        "ipywidgets.jslink((view, 'step'), (ipywidgets.IntSlider(), 'value'))",
        "ipywidgets.Button(layout=view.layout)",
    ],
)
def test_a_view_contained_in_another_widget_stays_open(run, holder):
    """A reloaded page receives every widget, and a widget that contains a closed widget could not be sent."""
    run("a", "view = new(); show(view)")
    run("b", f"holder = {holder}")
    run("a", "show(new())")
    assert run.names["view"].comm is not None
    assert "IPY_MODEL_" in str(run.names["holder"].get_state())
    run.names["holder"].close()


@pytest.mark.spec("V-12", "V-16")
def test_a_pair_is_closed_with_its_views(run):
    pair = run.names["pair"] = compare(sample.mlp(), sample.mlp()).explore()
    members = (pair, pair.layout, pair.before, pair.before.layout, pair.after, pair.after.layout)
    run("a", "pair._repr_mimebundle_()")
    run("a", "pass")
    assert [widget.comm for widget in members] == [None] * 6
    pair._repr_mimebundle_()
    assert None not in [widget.comm for widget in members]


@pytest.mark.spec("V-16")
def test_a_view_can_be_made_after_all_widgets_were_closed():
    GraphView(sample.mlp())
    ipywidgets.Widget.close_all()
    view = GraphView(sample.mlp())
    assert view.get_state()["front_end"] == f"IPY_MODEL_{view.front_end.comm.comm_id}"


@pytest.mark.spec("V-16")
def test_a_widget_contains_little_code_and_the_shared_code_has_no_wide_characters():
    """A browser stores a string in one byte per character only if no character is above U+00FF."""
    view = GraphView(sample.mlp())
    assert len(view.get_state()["_esm"]) < 5_000
    assert "_css" not in view.get_state()
    assert view.front_end.script.encode("latin-1")
