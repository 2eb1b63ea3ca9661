"""Errors of answers: what a reader's operation, rule or pass raised while it was checked, as a finding."""

from __future__ import annotations

import inspect
import linecache
import sys
import traceback
from pathlib import Path
from typing import Any

from explorer.core.errors import ExplorerError
from explorer.course.card import Finding

_OWN = str(Path(__file__).parents[1])
_INSTALLED = (_OWN, sys.prefix, sys.base_prefix)


def raised_by_answer(error: Exception, answer: Any = None) -> Finding:
    """Return the finding that an answer raised an error, with the line of the answer; raise an error of explorer's own.

    An error is the answer's where a frame of it is on the way, or where explorer refused, on purpose, what it made; of
    a function, any: it may have other parameters than the exercise gives it, or return another thing.
    """
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    frames = [frame for each in chain for frame in traceback.extract_tb(each.__traceback__)]
    own = [frame for frame in frames if not frame.filename.startswith(_INSTALLED) and not _is_library(frame.filename)]
    is_function = inspect.isfunction(answer)
    if not own and not isinstance(error, ExplorerError) and not is_function:
        raise error
    first = chain[-1]
    text = " ".join(f"{type(first).__name__}: {first}".split())
    if not own and is_function:
        called = f"`{answer.__name__}{inspect.signature(answer)}`"
        return Finding(False, f"Where {called} was called as the exercise calls it, this was raised: {text}")
    if not own:
        return Finding(False, f"It cannot be planned and run: {text}")
    line = linecache.getline(own[-1].filename, own[-1].lineno or 0).strip()
    place = f"line {own[-1].lineno} of the answer" + (f", `{line}`," if line and "`" not in line else "")
    return Finding(False, f"At {place} this was raised: {text}")


def _is_library(filename: str) -> bool:
    return filename.startswith("<frozen") or "site-packages" in Path(filename).parts
