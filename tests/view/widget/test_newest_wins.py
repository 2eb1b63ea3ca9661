"""Assignments in Python win over pending changes of a page."""

import pytest

from explorer.view.widget.widget import GraphView
from tests.view import sample


class Page:
    """Page that shows a view: it receives the view's messages, and its own changes wait until they are delivered."""

    def __init__(self, view, monkeypatch):
        self.view = view
        self.state = dict(view.get_state())
        self.waiting = []
        self.files = []
        monkeypatch.setattr(view, "_send", lambda message, buffers=None: self.hear(message))

    def hear(self, message):
        if message["method"] in ("update", "echo_update"):
            self.state.update({name: dict(v) if isinstance(v, dict) else v for name, v in message["state"].items()})
        elif message["method"] == "custom" and message["content"]["kind"] == "file":
            self.files.append(message["content"]["text"])

    def change(self, **values):
        """Set traits, as ``saveChanged`` of mount.js does."""
        seen = {**self.state["seen"], **{name: self.state["revisions"].get(name, 0) for name in values}}
        self.state.update(values, seen=seen)
        self.waiting.append({**values, "seen": {**seen, "changes": len(self.waiting)}})

    def deliver(self):
        for values in self.waiting:
            self.view.set_state(values)
        self.waiting.clear()


@pytest.fixture
def view():
    return GraphView(sample.mlp())


@pytest.mark.spec("V-1")
def test_a_pending_page_change_does_not_undo_assignments_in_python(view, monkeypatch):
    """A reader's step from before a cell set another step is ignored, and the page goes to Python's step."""
    page = Page(view, monkeypatch)
    page.change(step=2, stage="simplify")
    page.change(step=3, stage="simplify")
    view.stage = "order"
    page.deliver()
    assert (view.stage, view.step) == ("order", 8)
    assert (page.state["stage"], page.state["step"]) == ("order", 8)
    page.change(step=9)
    page.deliver()
    assert (view.stage, view.step) == ("order", 9)


@pytest.mark.spec("V-1")
def test_only_traits_set_by_python_are_kept(view, monkeypatch):
    """A reader's selection is applied, although a cell has set a step in the meantime."""
    page = Page(view, monkeypatch)
    page.change(selected=5)
    page.change(step=1, stage="simplify")
    view.step = 12
    page.deliver()
    assert (view.step, view.selected, page.state["selected"]) == (12, 5, 5)


@pytest.mark.spec("V-1")
def test_changes_of_linked_widgets_are_applied(view, monkeypatch):
    """A slider linked in the browser sends no revision, so its value is applied."""
    page = Page(view, monkeypatch)
    page.change(step=1, stage="simplify")
    page.deliver()
    view.step = 4
    view.set_state({"step": 7})
    assert view.step == 7


@pytest.mark.spec("V-1")
def test_callbacks_that_reply_to_a_page_do_not_block_its_next_changes(view, monkeypatch):
    page = Page(view, monkeypatch)
    view.observe(lambda change: setattr(view, "selected", change["new"]), "step")
    for step in (1, 2, 3):
        page.change(step=step, stage="simplify")
    page.deliver()
    assert (view.step, view.selected) == (3, 3)


@pytest.mark.spec("V-1")
def test_a_file_shows_the_state_of_the_page_with_pending_steps(view, monkeypatch):
    page = Page(view, monkeypatch)
    page.change(step=2, stage="simplify", selected=5)
    state = {name: page.state[name] for name in ("theme", "step", "stage", "selected", "open_boxes", "direction")}
    view._handle_custom_msg({"kind": "file", "extension": ".html", "state": state}, [])
    assert r"stage=simplify\u0026step=2\u0026node=5" in page.files[0]
    assert (view.step, view.selected) == (0, -1)
