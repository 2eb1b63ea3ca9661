"""Two plans beside each other: as text, as two pictures, and as two views that step together."""

from __future__ import annotations

from typing import Any

from explorer.record import Recording
from explorer.record.comparison import Comparison, Regrouped, compare
from explorer.view.counted import Count, counted
from explorer.view.lines import source_text
from explorer.view.marks import differences, legend
from explorer.view.markup import Markup, element
from explorer.view.paired import option_text, title
from explorer.view.svg import svg
from explorer.view.text import decision_line, folded
from explorer.view.visible import visible

_LISTED = 40
"""rows of one kind that are listed at most"""
_MEMBERS = 6
"""nodes of a kernel, and kernels of a group, that are named at most"""


class Compared(Comparison):
    """A comparison that can be shown: printed it is its text, in a notebook two pictures, explored two views."""

    @classmethod
    def of(cls, before: Recording, after: Recording) -> Compared:
        """Compare two recordings."""
        return cls(**vars(compare(before, after)))

    def __str__(self) -> str:
        return self.text()

    def text(self, *, measured: bool = False) -> str:
        """Return the comparison as text; canonical, unless ``measured`` asks for the times of runs too."""
        lines = [f"{title(self.before)} → {title(self.after)}"]
        for name, pair in self.options.items():
            lines.append(f"option {name}: {' → '.join([option_text(value) or 'nothing' for value in pair])}")
        lines += self._graph_lines()
        rows = [Count("", "before", "after", "difference"), *counted(self, measured=measured)]
        wide = [max(len(row[column]) for row in rows) for column in range(3)]
        lines += [f"  {a:<{wide[0]}}  {b:>{wide[1]}}  {c:>{wide[2]}}  {d}".rstrip() for a, b, c, d in rows]
        for what, recording, decisions in (
            ("before", self.before, self.decisions_before),
            ("after", self.after, self.decisions_after),
        ):
            if decisions:
                lines.append(f"decisions only {what}: {len(decisions):,}")
                lines += _cut(folded([decision_line(recording, decision) for decision in decisions]))
        lines += self._kernel_lines()
        return "\n".join(visible(line) for line in lines) + "\n"

    def _graph_lines(self) -> list[str]:
        nodes = self.nodes
        if nodes.equal:
            return [f"the same graph of {len(nodes.pairs):,} recorded nodes"]
        lines = [
            f"recorded nodes: {nodes.same:,} the same, {len(nodes.renamed):,} renamed, {len(nodes.changed):,} changed, "
            f"{len(nodes.only_before):,} only before, {len(nodes.only_after):,} only after"
        ]
        changed = [f"  Δ {self._pair(node)}: {'; '.join(words)}" for node, words in nodes.changed.items()]
        removed = [f"  - {_node(self.before, node)}" for node in nodes.only_before]
        added = [f"  + {_node(self.after, node)}" for node in nodes.only_after]
        labels = self.before.nodes.label, self.after.nodes.label
        renamed = [f"  = {labels[0][node]} → {labels[1][nodes.pairs[node]]}" for node in nodes.renamed]
        return lines + _cut(changed) + _cut(removed) + _cut(added) + _cut(renamed)

    def _pair(self, node: int) -> str:
        """Name a paired node once, with the places of both."""
        other = self.nodes.pairs[node]
        names = dict.fromkeys([self.before.label(node), self.after.label(other)])
        places = dict.fromkeys([source_text(self.before, node), source_text(self.after, other)])
        return ", ".join(part for part in (" → ".join(names), " → ".join(filter(None, places))) if part)

    def _kernel_lines(self) -> list[str]:
        differ = [found for found in self.kernels if not found.same]
        same = sum(len(found.before) for found in self.kernels if found.same)
        lines = [f"kernels: {same:,} the same, {len(differ):,} {'place' if len(differ) == 1 else 'places'} where not"]
        return lines + _cut([f"  {self._side(found, 0)} → {self._side(found, 1)}" for found in differ])

    def _side(self, found: Regrouped, side: int) -> str:
        recording, numbers = ((self.before, found.before), (self.after, found.after))[side]
        assert recording.schedule is not None
        told = []
        for number in numbers[:_MEMBERS]:
            kernel = recording.schedule.kernels[number].nodes
            names = [recording.label(node) for node in kernel[:_MEMBERS]] + ["…"] * (len(kernel) > _MEMBERS)
            told.append(f"{number + 1} {' · '.join(names)}")
        rest = len(numbers) - len(told)
        return ", ".join(told + [f"{rest:,} more"] * bool(rest)) or "nothing"

    def explore(self, **options: Any) -> Any:
        """Return both plans as widgets side by side: where one is stepped or selected, the other follows."""
        from explorer.view.side_by_side import SideBySide  # the widgets are slow to import

        return SideBySide(self, **options)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}

    def html(self) -> str:
        """Return both graphs side by side with what differs marked, and the text below, as HTML without a script.

        The graphs are those that were recorded, where they differ, else those that the plans end with.
        """
        positions = (self.before.end, self.after.end) if self.nodes.equal else (0, 0)
        marks = differences(self, positions)
        sides = []
        for side, (name, recording) in enumerate((("before", self.before), ("after", self.after))):
            told = legend(marks[side].values()) or ["no difference"]
            caption = element("figcaption", f"{name}: {title(recording)} · {', '.join(told)}")
            picture = Markup(svg(recording, positions[side], marks=marks[side]))
            sides.append(element("figure", caption, picture, style="margin:0;flex:1 1 0;min-width:0"))
        return element(
            "div",
            element("div", *sides, style="display:flex;gap:16px;align-items:flex-start"),
            element(
                "pre",
                *[Markup(element("span", line) + "\n") for line in self.text().splitlines()],
                style="white-space:pre-wrap",
            ),
        )


def _node(recording: Recording, node: int) -> str:
    where = source_text(recording, node)
    return f"{recording.label(node)} {recording.type_text(node)}" + (f", {where}" if where else "")


def _cut(lines: list[str]) -> list[str]:
    rest = len(lines) - _LISTED
    return lines if rest <= 0 else [*lines[:_LISTED], f"  … and {rest:,} more"]
