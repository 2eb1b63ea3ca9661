"""Comparison of two plans as text, as two pictures, and as two views that step together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison, compare
from explorer.view.compare.comparison_html import html
from explorer.view.compare.comparison_text import text

if TYPE_CHECKING:
    from explorer.view.compare.side_by_side import SideBySide


class Compared(Comparison):
    """Comparison that can be shown: as text when printed, as two pictures in a notebook, as two views when explored."""

    @classmethod
    def of(cls, before: Recording, after: Recording) -> Self:
        """Compare two recordings."""
        return cls(**vars(compare(before, after)))

    def __str__(self) -> str:
        return self.text()

    def text(self, *, measured: bool = False) -> str:
        """Return the comparison as text; it is canonical unless ``measured`` asks for the times of runs too."""
        return text(self, measured=measured)

    def html(self) -> str:
        """Return both graphs side by side with marked differences, and the text below, as HTML without a script."""
        return html(self)

    def explore(self, **options: Any) -> SideBySide:
        """Return both plans as a widget (SideBySide); moving, stepping or selecting in one view moves the other."""
        from explorer.view.compare.side_by_side import SideBySide  # importing the widgets is slow, and text needs none

        return SideBySide(self, **options)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": self.text(), "text/html": self.html()}
