"""The shell of IPython that runs the user's code, if there is one, and the parts that it has.

Servers of apps, such as Solara, put an object without most of these parts in the shell's place.
"""

from __future__ import annotations

import sys
from typing import Any


def shell_part(*path: str) -> Any:
    """Return a part of the running shell by the names that lead to it; None if there is no shell, or it lacks one.

    Without names it is the shell itself. IPython is not imported for it.

    >>> from explorer.record.shell import shell_part
    >>> shell_part("kernel", "get_parent") is None  # no notebook runs this
    True
    """
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    part = None if find is None else find()
    for name in path:
        part = getattr(part, name, None)
    return part


def request() -> dict[str, Any] | None:
    """Return the message that the kernel answers, such as the running cell; None outside notebooks."""
    parent = shell_part("kernel", "get_parent")
    return None if parent is None else parent() or {}
