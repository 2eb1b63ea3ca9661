"""Stored form of a view: what a notebook keeps beside the picture, so that it steps without a kernel.

The JupyterLab extension of this package (explorer/lab) renders the MIME type. The payload is compressed, because a
notebook keeps one for each output; measured times are left out, because two runs of a notebook differ by them alone.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

MIME = "application/vnd.explorer+json"
MOST = 1 << 21
"""most bytes of a stored view: a notebook with a larger one opens slowly, and the picture stands in its place"""


def stored(payload: dict[str, Any]) -> dict[str, str] | None:
    """Return a payload as the data of an output, ``{"gzip": base64 text}``; None if it would be larger than 2 MiB."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    packed = gzip.compress(text.encode("utf-8", "backslashreplace"), mtime=0)
    data = base64.b64encode(packed).decode()
    return {"gzip": data} if len(data) <= MOST else None


def restored(data: dict[str, str]) -> dict[str, Any]:
    """Return the payload of a stored view."""
    payload: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(data["gzip"])))
    return payload
