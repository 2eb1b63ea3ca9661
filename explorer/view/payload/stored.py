"""Stored form of a view: data that a notebook stores with the picture, so that readers can step without a kernel.

The JupyterLab extension of this package (explorer/lab) renders the MIME type. The payload is compressed, because a
notebook stores one for each output. It contains no measured times, because they differ between runs.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from io import BytesIO
from typing import Any

MIME = "application/vnd.explorer+json"
MAX_BYTES = 1 << 21
"""maximum bytes of a stored view; a larger one would make the notebook slow to open, so the picture replaces it"""
_MAX_UNPACKED = 1 << 28
"""maximum size in bytes of a restored payload, since compressed data can expand to thousands of times its size"""


def stored(payload: dict[str, Any]) -> dict[str, str] | None:
    """Return a payload as the data of an output, ``{"gzip": base64 string}``; None if it would exceed 2 MiB."""
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    # The highest level takes four times as long to save one per cent.
    packed = gzip.compress(text.encode("utf-8", "backslashreplace"), compresslevel=6, mtime=0)
    data = base64.b64encode(packed).decode()
    return {"gzip": data} if len(data) <= MAX_BYTES else None


def restored(data: dict[str, str]) -> dict[str, Any]:
    """Return the payload of a stored view; raise ValueError for other data, or a payload that is too large."""
    try:
        with gzip.open(BytesIO(base64.b64decode(data["gzip"], validate=True))) as packed:
            text = packed.read(_MAX_UNPACKED + 1)
        if len(text) > _MAX_UNPACKED:
            raise ValueError(f"it unpacks to more than {_MAX_UNPACKED:,} bytes")
        payload: dict[str, Any] = json.loads(text)
        if not isinstance(payload, dict):
            raise ValueError(f"it holds a {type(payload).__name__}")
    except (ValueError, TypeError, KeyError, OSError, EOFError, zlib.error, RecursionError) as error:
        raise ValueError(f"this is no stored view: {error}") from error
    return payload
