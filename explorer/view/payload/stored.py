"""Stored form of a view: data that a notebook keeps with the picture, so that it steps without a kernel.

The JupyterLab extension of this package (explorer/lab) renders the MIME type. The payload is compressed, because a
notebook keeps one for each output; measured times are left out, because two runs of a notebook differ by them alone.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from io import BytesIO
from typing import Any

MIME = "application/vnd.explorer+json"
MOST = 1 << 21
"""most bytes of a stored view: a notebook with a larger one opens slowly, and the picture stands in its place"""
_UNPACKED = 1 << 28
"""most bytes of a payload that is read back: a few bytes can claim thousands of times their size"""


def stored(payload: dict[str, Any]) -> dict[str, str] | None:
    """Return a payload as the data of an output, ``{"gzip": base64 text}``; None if it would be larger than 2 MiB."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    # The highest level takes four times as long for one per cent.
    packed = gzip.compress(text.encode("utf-8", "backslashreplace"), compresslevel=6, mtime=0)
    data = base64.b64encode(packed).decode()
    return {"gzip": data} if len(data) <= MOST else None


def restored(data: dict[str, str]) -> dict[str, Any]:
    """Return the payload of a stored view; raise ValueError for data that are no stored view, or a boundless one."""
    try:
        with gzip.open(BytesIO(base64.b64decode(data["gzip"], validate=True))) as packed:
            text = packed.read(_UNPACKED + 1)
        if len(text) > _UNPACKED:
            raise ValueError(f"it unpacks to more than {_UNPACKED:,} bytes")
        payload: dict[str, Any] = json.loads(text)
        if not isinstance(payload, dict):
            raise ValueError(f"it holds a {type(payload).__name__}")
    except (ValueError, TypeError, KeyError, OSError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(f"this is no stored view: {error}") from error
    return payload
