"""Progress bar of a notebook, with a button that cancels the work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import Context
from typing import Any

import ipywidgets  # type: ignore[import-untyped]  # the package has no types
from IPython.display import display

from explorer.record.shell import shell_part


def _button() -> Any:
    tooltip = "Stop after the part that is running"
    return ipywidgets.Button(description="Cancel", tooltip=tooltip, layout=ipywidgets.Layout(width="auto"))


def _without_request(make: Callable[[], Any]) -> Any:
    """Call ``make`` outside of any request, so that messages to its widget use the thread for browser messages.

    ipykernel sends messages of widgets created in a cell to the cell's own thread, which is busy.
    """
    kernel = shell_part("kernel")
    base = getattr(sys.modules.get("ipykernel.kernelbase"), "Kernel", None)
    if base is None or not isinstance(kernel, base):
        return make()
    identity, request = kernel._parent_ident["shell"], kernel.get_parent()

    def create() -> Any:
        base.set_parent(kernel, [], {})
        return make()

    try:
        return Context().run(create)
    finally:
        base.set_parent(kernel, identity, request)


class Bar:
    """Progress bar below its cell until it is closed; afterwards the cell's output is empty again.

    The button works only if widget messages have their own thread (ipykernel 7 with JupyterLab 4.4 or newer).
    Otherwise "Interrupt Kernel" cancels.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._bar = ipywidgets.IntProgress(layout=ipywidgets.Layout(width="14em"))
        self._label = ipywidgets.Label(style={"font_family": "monospace"})
        self._button = _without_request(_button)
        self._button.on_click(self._cancel)
        self._box = ipywidgets.HBox([self._bar, self._label, self._button])
        # Without text, since tests compare the texts of notebooks, and a fast machine shows no bar.
        shown = {"application/vnd.jupyter.widget-view+json": self._box.get_view_spec()}
        self._handle: Any = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def _cancel(self, button: Any) -> None:
        self.cancelled = True

    def show(self, text: str, done: int, total: int) -> None:
        """Show the progress: ``done`` of ``total`` parts; a ``total`` of 0 is unknown."""
        self._bar.layout.visibility = "visible" if total else "hidden"
        self._bar.max, self._bar.value = max(total, 1), done
        self._label.value = f"{done}/{total} {text}" if total else text

    def close(self) -> None:
        """Remove the bar."""
        self._handle.update({}, raw=True)
        for widget in (self._box, *self._box.children):
            widget.close()
