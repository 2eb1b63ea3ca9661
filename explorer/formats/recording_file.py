"""Files of recordings: ``x.explorer.json``, which ``view.save`` and ``explorer show -o`` write.

Nets of explorer's own format are JSON, too, so that the ending does not tell them apart: the text is looked into, once,
by those who show either.
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
    """Return the recording in a file, None if it is absent or holds anything else.

    Raises FileError for a damaged recording.
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
            rule="a recording must be as this version of explorer, or one before it, wrote it",
            fix=f"explorer show MODEL -o {file.name}",
        ) from error


def is_recording(data: bytes) -> bool:
    """Whether the bytes of a file are a recording's JSON."""
    return _stages(data) is not None


def _stages(data: bytes) -> dict[str, Any] | None:
    """Return the plain form of a recording; None for all else, damaged JSON included, which the reader of nets reports.

    A large file is parsed only if it has a word of recordings.
    """
    if b'"stages"' not in data:
        return None
    try:
        plain = plain_of(data.decode("utf-8", "replace"))
    except ValueError:
        return None
    return plain if isinstance(plain, dict) and "stages" in plain else None
