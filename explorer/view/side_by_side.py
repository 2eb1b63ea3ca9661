"""Two views of two plans, side by side: a stage, a step and a selection in one are followed by the other."""

from __future__ import annotations

from typing import Any

import ipywidgets  # type: ignore[import-untyped]

from explorer.record.comparison import Comparison
from explorer.view.widget import GraphView


class SideBySide(ipywidgets.HBox):  # type: ignore[misc]  # ipywidgets is untyped
    """The views ``before`` and ``after`` of a comparison.

    Stages follow by name, steps by their number in the stage, selections by matched nodes; what the other plan does
    not have leaves it where it is.
    """

    def __init__(self, comparison: Comparison, **options: Any) -> None:
        self.before = GraphView(comparison.before, **options)
        self.after = GraphView(comparison.after, **options)
        pairs = comparison.nodes.pairs
        self._partners = {id(self.before): pairs, id(self.after): {other: node for node, other in pairs.items()}}
        self._following = False
        for view in (self.before, self.after):
            view.layout = ipywidgets.Layout(flex="1 1 0", min_width="0")
            view.observe(self._follow, ("step", "selected"))
        super().__init__([self.before, self.after], layout=ipywidgets.Layout(width="100%"))

    def _follow(self, change: Any) -> None:
        if self._following:
            return
        view: GraphView = change["owner"]
        other = self.after if view is self.before else self.before
        self._following = True
        try:
            if change["name"] == "step":
                stage, place = view.place_of(change["new"])
                other.step = other.step_at(stage, place)
            else:
                other.selected = self._partners[id(view)].get(change["new"], -1)
        finally:
            self._following = False
