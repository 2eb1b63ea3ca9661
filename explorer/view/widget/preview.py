"""Preview in a notebook: a large graph as recorded, shown until the cell's view replaces it.

Planning a large graph and drawing all of its stages takes seconds; the recorded graph is drawn in a fraction of that.
The preview is a separate output, which is emptied when the cell has ended, so that the notebook stores only the view.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import traitlets
from IPython.display import display

from explorer.record import Recording
from explorer.record.listings import without_source
from explorer.record.shell import request, shell_part
from explorer.view.payload.view_payload import answer
from explorer.view.widget.front_end import WIDGET
from explorer.view.widget.interactive import is_interactive
from explorer.view.widget.widget import GraphView, json_text

LARGE = 600
"""minimum nodes of a graph that gets a preview"""
_OPTIONS = ("theme", "height", "direction")
"""options of a view that also apply before planning, unlike steps, nodes and boxes"""


def is_wanted() -> bool:
    """Return whether the running cell ends with a call of ``explore`` whose view a reader will see."""
    current, transform = request(), shell_part("transform_cell")
    if current is None or transform is None or shell_part("events") is None or not is_interactive():
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    return shows_view(transform(current.get("content", {}).get("code", "")))


def shows_view(source: str) -> bool:
    """Return whether a cell ends with a call of ``explore`` whose value is displayed.

    >>> from explorer.view.widget.preview import shows_view
    >>> shows_view("y = f(x)\\nex.explore(y)"), shows_view("view = ex.explore(y)"), shows_view("ex.explore(y);")
    (True, False, False)
    """
    try:
        statements = ast.parse(source).body
    except SyntaxError:  # a cell in another language, through a magic
        return False
    if not statements or source.rstrip().endswith(";"):
        return False
    last = statements[-1]
    if not isinstance(last, ast.Expr) or not isinstance(last.value, ast.Call):
        return False
    function = last.value.func
    return getattr(function, "attr", getattr(function, "id", "")) == "explore"


class PreviewView(GraphView):
    """View that sends the layout of open boxes first, and of other boxes, which takes longer, in a second message.

    It has no source and no attributes of a file's operators, which a reader needs later than the picture.
    """

    insides = traitlets.Dict().tag(sync=True, to_json=json_text)
    """additional boxes that are laid out, in reply to a page that requested them"""

    def _sent_recording(self) -> Recording:
        return without_source(replace(self.recording, operators=[], operator_types=[]))

    def _placed_boxes(self) -> set[int]:
        return self._drawing.layouts.opened()

    def send_insides(self) -> None:
        """Send the layout of the boxes that a reader may open before the kernel can reply."""
        boxes = self._drawing.layouts.next_to_open()
        if boxes:
            self.insides = answer(self._drawing, boxes)


class Preview:
    """View of a recording below the cell until the cell has ended; ``options`` are the options of the cell's view."""

    def __init__(self, recording: Recording, options: Mapping[str, Any]) -> None:
        self._view = PreviewView(recording, **{name: options[name] for name in _OPTIONS if name in options})
        # Without text, since the notebook's own output contains the text of the whole plan.
        shown = {WIDGET: self._view.get_view_spec()}
        self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython's
        shell_part("events").register("post_execute", self._leave)
        self._view.send_insides()

    def _leave(self) -> None:
        shell_part("events").unregister("post_execute", self._leave)
        self._handle.update({}, raw=True)
        self._view.leave()
