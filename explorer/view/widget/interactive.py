"""Whether somebody can see a widget: cells are also run by programs, which write down what they show.

A widget lives as long as its kernel. A notebook that ``jupyter nbconvert --execute`` or papermill has run would hold a
reference to one that is gone, which nbconvert prefers to the picture beside it: its page would be blank.
"""

from __future__ import annotations

import os

from IPython import get_ipython


def is_interactive() -> bool:
    """Whether the running cell can be answered by a reader, as its front end says; Voila shows widgets to readers, too.

    Front ends without a reader allow no input: nbconvert, papermill, nbval and whatever else runs cells by nbclient.
    Outside of notebooks nothing runs cells, and the answer is yes.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None or os.environ.get("SERVER_SOFTWARE", "").startswith("voila") or "VOILA_PREHEAT" in os.environ:
        return True
    request = kernel.get_parent()
    allows_input: bool = (request.get("content") or {}).get("allow_stdin", True)
    return allows_input or "cellId" in (request.get("metadata") or {})
