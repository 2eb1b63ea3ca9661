"""Two views of two plans, side by side: what is done in one is followed by the other."""

from __future__ import annotations

import json
from typing import Any

import anywidget
import ipywidgets  # type: ignore[import-untyped]
import traitlets

from explorer.record.compare.comparison import Comparison
from explorer.view.compare.comparison_html import html
from explorer.view.compare.comparison_text import text
from explorer.view.compare.pair_payload import paired, start
from explorer.view.compare.step_mapping import TIES, Tie, partners
from explorer.view.payload.bundle import script, stylesheet
from explorer.view.widget.widget import GraphView


class TiedView(GraphView):
    """One of two views; ``told`` while it takes what a page did, which has tied the other one itself."""

    told = False

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Take what a page did."""
        self.told = True
        try:
            super().set_state(sync_data)
        finally:
            self.told = False


class SideBySide(anywidget.AnyWidget):
    """The views ``before`` and ``after`` of a comparison, and what differs between them.

    Pan, zoom, steps, selections and open boxes of one are followed by the other. ``tied`` says how steps are: "nodes"
    goes to the same decision and to the kernel that computes the same nodes, "steps" to the step with the same number
    in the same stage, "off" unties both.
    """

    _esm = script()
    _css = stylesheet()

    before = traitlets.Instance(GraphView).tag(sync=True, **ipywidgets.widget_serialization)
    after = traitlets.Instance(GraphView).tag(sync=True, **ipywidgets.widget_serialization)
    comparison = traitlets.Unicode().tag(sync=True)
    """JSON text: what pair_payload.py makes"""
    tied = traitlets.Enum(TIES, "nodes").tag(sync=True)

    def __init__(self, comparison: Comparison, *, tied: Tie = "nodes", **options: Any) -> None:
        super().__init__(
            before=TiedView(comparison.before, **options),
            after=TiedView(comparison.after, **options),
            comparison=self._take(comparison),
            tied=tied,
        )
        self._following = False
        if "position" not in options:
            self.before.step, self.after.step = start(comparison, self._steps["nodes"])
        for view in (self.before, self.after):
            view.observe(self._follow, ("step", "selected"))

    def _take(self, comparison: Comparison) -> str:
        self.compared = comparison
        self._steps = partners(comparison)
        self._pairs = comparison.counterparts, {other: node for node, other in comparison.counterparts.items()}
        return json.dumps(paired(comparison), separators=(",", ":"))

    def update(self, comparison: Comparison) -> None:
        """Show a newer comparison of the same plans, after their runs for instance; steps and selections stay."""
        self._following = True
        try:
            self.before.update(comparison.before)
            self.after.update(comparison.after)
        finally:
            self._following = False
        self.comparison = self._take(comparison)

    def _follow(self, change: Any) -> None:
        view: TiedView = change["owner"]
        if self._following or view.told or self.tied == "off":
            return
        side = int(view is self.after)
        other = (self.after, self.before)[side]
        self._following = True
        try:
            if change["name"] == "step":
                other.step = self._steps[self.tied][side][change["new"]]
            else:
                other.selected = self._pairs[side].get(change["new"], -1)
        finally:
            self._following = False

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The live views, and for readers without them both pictures and the canonical text."""
        found = super()._repr_mimebundle_(**options)
        if found is None:
            return None
        data, metadata = found
        return {**data, "text/plain": text(self.compared), "text/html": html(self.compared)}, metadata
