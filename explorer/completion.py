"""Completion of ``ex.`` in IPython and JupyterLab: everyday functions first, operations last.

IPython sorts names by the alphabet, in which two hundred operations hide ``explore``. One more matcher among its own
answers for ``ex.`` alone: once a letter is typed, completion is IPython's.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell

IDENTIFIER = "explorer"
"""name of the matcher, by which a user's configuration may refer to it"""
_NAME_AND_DOT = re.compile(r"(?<![\w.\"'\])])([^\W\d]\w*)\.$")


def ordered_names(module: ModuleType, operations: Collection[str]) -> list[str]:
    """Return the public names of a module: those of ``__all__``, other functions, classes, then those of operations."""
    everyday = module.__all__
    names = [name for name in dir(module) if not name.startswith("_")]
    return sorted(names, key=lambda name: (name not in everyday, name in operations, name[0].isupper(), name.lower()))


def order_completions(shell: InteractiveShell, module: ModuleType, operations: ModuleType) -> None:
    """Enter a matcher into a shell, in place of an earlier one, that completes the module's name and a dot."""
    from IPython.core.completer import SimpleCompletion, context_matcher

    def match(context: CompletionContext) -> SimpleMatcherResult:
        typed = _NAME_AND_DOT.search(context.text_until_cursor)
        if typed is None or shell.user_ns.get(typed[1]) is not module:
            return {"completions": []}
        recorded = dir(operations)
        completions = [
            SimpleCompletion(name, type="function" if name in recorded else _type(vars(module).get(name)))
            for name in ordered_names(module, recorded)
        ]
        return {"completions": completions, "matched_fragment": "", "ordered": True, "suppress": True}

    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != IDENTIFIER]
    matchers.append(context_matcher(identifier=IDENTIFIER)(match))


def _type(value: object) -> str | None:
    """The word of completion for a value; None where completion has none."""
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else None
