"""Tracebacks that show only the user's frames, for errors in notebooks and tests."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from traceback import format_exception
from types import TracebackType

from explorer.record.shell import shell_part

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = tuple(
    os.path.join(folder, "")
    for folder in {*site.getsitepackages(), site.getusersitepackages(), *sysconfig.get_paths().values()}
)

_COMPARED = 60
"""number of characters of a cause's message that are searched in the message of an error"""


def shorten(error: BaseException) -> None:
    """Remove frames of this package and of installed packages from the tracebacks of an error and its causes.

    If no frames would remain, an error keeps its outermost frame, whereas a cause is not shown, because the error's
    message already contains the information.
    """
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = _user_frames(current.__traceback__)
        outermost = current.__traceback__
        if inner := _reported_cause(current):
            # the error's message has the cause's, so only the place is added: the innermost frame of the user's code
            shared = {id(each.tb_frame) for each in inner}
            frames = [*[each for each in frames if id(each.tb_frame) not in shared], *inner[:1], *inner[1:][-1:]]
            current.__cause__, current.__suppress_context__ = None, True
        current.__traceback__ = _linked(frames or ([outermost] if outermost is not None else []))
        following = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if following is not None and not _user_frames(following.__traceback__):
            current.__cause__, current.__suppress_context__ = None, True
            following = None
        current = following


def _reported_cause(error: BaseException) -> list[TracebackType]:
    """Return the user's frames of an error's cause if the error's message states the cause's message already.

    Errors of torch's exporter have causes with hundreds of lines, of which explorer's error states the first.
    """
    stated, cause = " ".join(str(error).split()), error.__cause__
    frames: list[TracebackType] = []
    is_stated, seen = False, set[int]()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        first = " ".join(str(cause).strip().partition("\n")[0].split())[:_COMPARED]
        is_stated = is_stated or bool(first and first in stated)
        frames = _user_frames(cause.__traceback__) or frames
        cause = cause.__cause__
    return frames if is_stated else []


def render(error: BaseException) -> list[str]:
    """Return the lines that IPython, or else Python, shows for an error with a shortened traceback."""
    shorten(error)
    formatter = shell_part("InteractiveTB")
    if formatter is None:  # another program's shell
        return format_exception(error)
    lines: list[str] = formatter.structured_traceback(type(error), error, error.__traceback__)
    return lines


def _user_frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames = []
    while traceback is not None:
        path = traceback.tb_frame.f_code.co_filename
        hidden = path.startswith(_PACKAGE) or (path.startswith(_INSTALLED) and not _is_program(path))
        if not hidden and not path.startswith("<frozen "):
            frames.append(traceback)
        traceback = traceback.tb_next
    return frames


def _is_program(path: str) -> bool:
    """Return whether ``path`` is the running program, which may be inside an installation's folder."""
    return path == getattr(sys.modules.get("__main__"), "__file__", None)


def _linked(frames: list[TracebackType]) -> TracebackType | None:
    traceback: TracebackType | None = None
    for frame in reversed(frames):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback
