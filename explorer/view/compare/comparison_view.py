"""Two plans beside each other: as text, as two pictures, and as two views that step together."""

from __future__ import annotations

from typing import Any

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison, compare
from explorer.view.compare.comparison_html import html
from explorer.view.compare.comparison_text import text


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
        return text(self, measured=measured)

    def html(self) -> str:
        """Return both graphs side by side with what differs marked, and the text below, as HTML without a script."""
        return html(self)

    def explore(self, **options: Any) -> Any:
        """Return both plans as a widget (SideBySide): where one is moved, stepped or selected, the other follows."""
        from explorer.view.compare.side_by_side import SideBySide  # the widgets are slow to import

        return SideBySide(self, **options)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}
