"""The IPython shell that runs the user's code, if there is one.

App servers, such as Solara, replace the shell by an object that lacks most of its parts.
"""

from __future__ import annotations

import sys
from typing import Any


def shell_part(*path: str) -> Any:
    """Return the running shell's attribute at ``path``, or None if the shell or an attribute is missing.

    Without a path, return the shell itself. IPython is not imported.

    >>> from explorer.record.shell import shell_part
    >>> shell_part("kernel", "get_parent") is None  # no notebook runs this
    True
    """
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if find is None:
        return None
    part = find()
    for name in path:
        part = getattr(part, name, None)
    return part


def request() -> dict[str, Any] | None:
    """Return the message that the kernel answers, such as the running cell; None outside notebooks."""
    parent = shell_part("kernel", "get_parent")
    return None if parent is None else parent() or {}
