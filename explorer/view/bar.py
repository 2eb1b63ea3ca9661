"""A bar in a notebook that tells how far long work is, with a button that asks to cancel it."""

from __future__ import annotations

from typing import Any

import ipywidgets  # type: ignore[import-untyped]
from IPython.display import display


class Bar:
    """Shown below its cell until it is closed; afterwards the cell's output holds nothing of it.

    The button's message reaches a busy kernel where messages of widgets go by another thread: ipykernel 7 with
    JupyterLab 4.4 or newer. Elsewhere "Interrupt Kernel" cancels.
    """

    def __init__(self) -> None:
        self.cancelled = False
        self._bar = ipywidgets.IntProgress(layout=ipywidgets.Layout(width="14em"))
        self._label = ipywidgets.Label(style={"font_family": "monospace"})
        self._button = ipywidgets.Button(
            description="Cancel", tooltip="Stop after the part that is running", layout=ipywidgets.Layout(width="auto")
        )
        self._button.on_click(self._cancel)
        self._box = ipywidgets.HBox([self._bar, self._label, self._button])
        self._handle: Any = display(self._box, display_id=True)  # type: ignore[no-untyped-call]

    def _cancel(self, button: Any) -> None:
        self.cancelled = True
        button.disabled = True
        button.description = "Cancelling …"

    def show(self, said: str, done: int, total: int) -> None:
        """Say where the work is: ``done`` of ``total`` parts, of which 0 is unknown."""
        self._bar.layout.visibility = "visible" if total else "hidden"
        self._bar.max, self._bar.value = max(total, 1), done
        self._label.value = f"{done}/{total} {said}" if total else said

    def close(self) -> None:
        """Take the bar away."""
        self._handle.update({}, raw=True)
        for widget in (self._box, *self._box.children):
            widget.close()
