"""Warnings at the user's line."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_PACKAGE = str(Path(__file__).parents[1])


def warn_caller(text: str, category: type[Warning], skipped: tuple[str, ...] = (_PACKAGE,)) -> None:
    """Emit a warning for the nearest caller whose file is outside ``skipped``, which are files or folders."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(skipped) and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals.get("__name__")
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno, module=module)
