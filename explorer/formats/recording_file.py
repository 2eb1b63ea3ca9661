"""Files of recordings: ``x.explorer.json``, which ``view.save`` and ``explorer show -o`` write.

Nets of explorer's own format are JSON, too, so that the ending does not tell them apart: the text is looked into, once,
by those who show either.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import content
from explorer.record import Recording
from explorer.record.json_form.codec import loads


def stored_recording(path: str | os.PathLike[str]) -> Recording | None:
    """Return the recording in a file, None if it is absent or holds anything else.

    Raises FileError for a damaged recording.
    """
    file = Path(path)
    if file.suffix.lower() != ".json" or not os.path.lexists(file):
        return None
    data = content(file, "correct the path of the .json file")
    if not is_recording(data):
        return None
    try:
        return loads(data.decode("utf-8", "replace"))
    except ValueError as error:
        raise FileError(
            str(error),
            path=str(file),
            rule="a recording must be as this version of explorer, or one before it, wrote it",
            fix=f"explorer show MODEL -o {file.name}",
        ) from error


def is_recording(data: bytes) -> bool:
    """Whether the bytes of a file are a recording's JSON; damaged ones are left to the reader of nets to tell of."""
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(plain, dict) and "stages" in plain
