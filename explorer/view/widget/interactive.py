"""Detection of readers: cells may also be run by programs that store their outputs.

A widget lives as long as its kernel. A notebook executed by ``jupyter nbconvert --execute`` or papermill would contain
a reference to a deleted widget, which nbconvert prefers to the picture next to it, so that its page would be blank.
"""

from __future__ import annotations

import os

from explorer.record.shell import request


def is_interactive() -> bool:
    """Return whether a reader can respond to the running cell, as its front end reports; true in Voila.

    Front ends without a reader do not allow input: nbconvert, papermill, nbval and other users of nbclient. Outside
    notebooks there are no cells, and the result is True.
    """
    current = request()
    if current is None or os.environ.get("SERVER_SOFTWARE", "").startswith("voila") or "VOILA_PREHEAT" in os.environ:
        return True
    allows_input: bool = (current.get("content") or {}).get("allow_stdin", True)
    return allows_input or "cellId" in (current.get("metadata") or {})
