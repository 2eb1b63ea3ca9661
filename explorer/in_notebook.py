"""Features that need IPython: completion, idle imports, progress bars, and checks of new operations and rules.

Outside IPython, nothing is imported for them.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from explorer.record.shell import request, shell_part

if TYPE_CHECKING:
    from explorer.core.progress import ProgressCallback


def start(module: ModuleType) -> None:
    """Set up completion of ``module`` and idle imports, if an IPython shell is running."""
    if shell_part("Completer", "custom_matchers") is not None:
        from explorer.completion import order_completions

        order_completions(shell_part(), module)
    if request() is not None:
        from explorer.idle_imports import import_when_idle

        import_when_idle()


def note_declaration(declared: type[Any]) -> None:
    """Schedule a check of a new operation's or rule's laws for the end of the cell; do nothing in scripts."""
    if shell_part("events") is not None:
        from explorer.testing.laws.declarations import note_declaration

        note_declaration(declared)


def progress_bar() -> AbstractContextManager[ProgressCallback] | None:
    """Return a progress bar for work that takes longer than a second, or None outside notebooks."""
    if request() is None or threading.current_thread() is not threading.main_thread():
        return None
    from explorer.core.progress import delayed

    def make() -> AbstractContextManager[ProgressCallback]:
        from explorer import cell_outputs

        return cell_outputs.bar()

    return delayed(make)
