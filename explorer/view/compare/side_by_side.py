"""Two synchronized views of two plans, side by side.

Views are synchronized in the page, which updates the other view immediately, and here, for changes made by cells.
`from_page` prevents a page's change from being sent back to it.
"""

from __future__ import annotations

import json
from typing import Any

import ipywidgets  # type: ignore[import-untyped]  # the package has no types
import traitlets

from explorer.record.compare.comparison import Comparison
from explorer.view.compare.comparison_html import html
from explorer.view.compare.comparison_text import text
from explorer.view.compare.pair_payload import paired, start
from explorer.view.compare.step_mapping import TIES, Tie, partners
from explorer.view.widget.front_end import NotebookWidget
from explorer.view.widget.widget import GraphView


class TiedView(GraphView):
    """One of two synchronized views."""

    from_page = False
    """whether the view is applying a message from a page, which has already updated the other view"""

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply the state sent by a page."""
        self.from_page = True
        try:
            super().set_state(sync_data)
        finally:
            self.from_page = False


class SideBySide(NotebookWidget):
    """Views ``before`` and ``after`` of a comparison, with their differences.

    Pan, zoom, steps, selections and open boxes are synchronised. ``tied`` selects how steps are synchronised: "nodes"
    goes to the same decision and to the kernel that computes the same nodes, "steps" to the step with the same number
    in the same stage, and "off" does not synchronise them.
    """

    before = traitlets.Instance(GraphView).tag(sync=True, **ipywidgets.widget_serialization)
    after = traitlets.Instance(GraphView).tag(sync=True, **ipywidgets.widget_serialization)
    comparison = traitlets.Unicode().tag(sync=True)
    """JSON text of pair_payload.py"""
    tied = traitlets.Enum(TIES, "nodes").tag(sync=True)

    def __init__(self, comparison: Comparison, *, tied: Tie = "nodes", **options: Any) -> None:
        super().__init__(
            before=TiedView(comparison.before, **options),
            after=TiedView(comparison.after, **options),
            comparison=self._set_comparison(comparison),
            tied=tied,
        )
        self._following = False
        if "position" not in options:
            self.before.step, self.after.step = start(comparison, self._steps["nodes"])
        for view in (self.before, self.after):
            view.observe(self._follow, ("step", "stage", "selected"))

    def __repr__(self) -> str:
        return f"<SideBySide of {self.before!r} and {self.after!r}>"

    @property
    def parts(self) -> list[ipywidgets.Widget]:
        """Widgets that belong only to this widget, including both views."""
        return [*super().parts, *self.before.parts, *self.after.parts, self.before, self.after]

    def _set_comparison(self, comparison: Comparison) -> str:
        self.compared = comparison
        self._steps = partners(comparison)
        self._pairs = comparison.counterparts, {other: node for node, other in comparison.counterparts.items()}
        return json.dumps(paired(comparison), separators=(",", ":"))

    def update(self, comparison: Comparison) -> None:
        """Show a newer comparison of the same plans, for example after their runs; steps and selections are kept."""
        self._following = True
        try:
            self.before.update(comparison.before)
            self.after.update(comparison.after)
        finally:
            self._following = False
        self.comparison = self._set_comparison(comparison)

    def _follow(self, change: Any) -> None:
        view: TiedView = change["owner"]
        if self._following or view.from_page or self.tied == "off":
            return
        side = int(view is self.after)
        # The following changes are observed too; without the flag the other view would update this one again.
        follower = (self.after, self.before)[side]
        self._following = True
        try:
            if change["name"] != "selected" and view.is_whole and follower.has_stage(view.stage):
                follower.show_whole(view.stage)
            elif change["name"] == "step":
                follower.step = self._steps[self.tied][side][change["new"]]
            elif change["name"] == "selected":
                follower.selected = self._pairs[side].get(change["new"], -1)
        finally:
            self._following = False

    def static_outputs(self) -> dict[str, Any]:
        """Return both pictures and the canonical text."""
        return {"text/plain": text(self.compared), "text/html": html(self.compared)}
