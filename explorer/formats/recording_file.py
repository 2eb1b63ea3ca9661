"""Reader of recording files, ``x.explorer.json``, which ``view.save`` and ``explorer show -o`` write.

Nets in explorer's own format are also JSON files, so a recording is recognized by its contents, not by its extension.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import content
from explorer.record import Recording
from explorer.record.json_form.codec import from_json, plain_of


def stored_recording(path: str | os.PathLike[str]) -> Recording | None:
    """Return the recording in the file ``path``, or None if the file is missing or is not a recording.

    Raise FileError if the recording is damaged.
    """
    file = Path(path)
    if file.suffix.lower() != ".json" or not os.path.lexists(file):
        return None
    plain = _stages(content(file, "correct the path of the .json file"))
    if plain is None:
        return None
    try:
        return from_json(plain)
    except ValueError as error:
        raise FileError(
            str(error),
            path=str(file),
            rule="a recording must have been written by this or an earlier version of explorer",
            fix=f"explorer show MODEL -o {file.name}",
        ) from error


def is_recording(data: bytes) -> bool:
    """Return whether the bytes of a file are a recording in JSON."""
    return _stages(data) is not None


def _stages(data: bytes) -> dict[str, Any] | None:
    """Return the recording in ``data`` as a dict, or None if ``data`` is not a recording.

    If ``data`` is damaged JSON, the result is also None, and the reader of nets reports the damage. Because files can
    be large, data is parsed only if it contains the key "stages".
    """
    if b'"stages"' not in data:
        return None
    try:
        plain = plain_of(data.decode("utf-8", "replace"))
    except ValueError:
        return None
    return plain if isinstance(plain, dict) and "stages" in plain else None
