"""Traits that a page and Python both set: where the two meet on their way, Python's value stays.

A page's change waits while a cell runs, and would then undo the cell's own: the reader pressed the key before.
So each value that Python sends has a revision, and a page says with each of its changes which revision it saw.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import traitlets

from explorer.view.widget.front_end import NotebookWidget

_TOGETHER = frozenset({"step", "stage"})
"""traits that mean one thing together: setting one of them sets both"""


class NewestWins(NotebookWidget):
    """Widget whose pages' changes give way to values that Python set later than the page knew."""

    revisions = traitlets.Dict().tag(sync=True)
    """trait → how often Python has sent it"""
    seen = traitlets.Dict().tag(sync=True)
    """trait → its revision that a page knew when it last changed the trait"""

    def send_state(self, key: str | Iterable[str] | None = None) -> None:
        """Send traits that Python has set, with their new revisions."""
        names = {key} if isinstance(key, str) else set(key or ())
        for name in names | (_TOGETHER if names & _TOGETHER else set()):
            self.revisions[name] = self.revisions.get(name, 0) + 1
        super().send_state({*names, "revisions"} if names else key)

    def set_state(self, sync_data: dict[str, Any]) -> None:
        """Apply the state that a page sent, less the traits that Python has set since; the page hears their values."""
        seen = sync_data.get("seen")
        if seen is not None:
            late = [name for name in sync_data if seen.get(name, 0) < self.revisions.get(name, 0) and name != "seen"]
            sync_data = {**sync_data, **self.get_state(late)}
        super().set_state(sync_data)
