"""Completion of ``ex.`` and of views in IPython and JupyterLab, with the most frequently used names first.

IPython sorts names alphabetically, so ``explore`` is hidden among two hundred operations, and ``view.save`` among sixty
names from Jupyter's widgets. This module adds a matcher that completes directly after the dot. Once a letter is typed,
IPython's own matchers take over.
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
"""name of the matcher in a user's IPython configuration"""
_NAME_AND_DOT = re.compile(r"(?<![\w.\"'\])])([^\W\d]\w*)\.$")


def ordered_names(module: ModuleType, operations: Collection[str]) -> list[str]:
    """Return a module's public names: first ``__all__``, then other functions, classes and operations."""
    everyday = module.__all__
    names = [name for name in dir(module) if not name.startswith("_")]
    return sorted(names, key=lambda name: (name not in everyday, name in operations, name[0].isupper(), name.lower()))


def own_names_first(value: object) -> list[str]:
    """Return an object's public names: first those defined by explorer, then those inherited from other packages."""
    classes = [cls for cls in type(value).__mro__ if cls.__module__.partition(".")[0] == "explorer"]
    own = {name for cls in classes for name in vars(cls)} | vars(value).keys()
    return sorted([name for name in dir(value) if name[0] != "_"], key=lambda name: (name not in own, name.lower()))


def _is_view(value: object) -> bool:
    """Return whether an object is one of explorer's widgets, without importing the widget module."""
    bases = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    return type(value).__module__.startswith("explorer.") and "ipywidgets" in bases


def order_completions(shell: InteractiveShell, module: ModuleType) -> None:
    """Add the matcher to a shell, replacing an earlier one.

    The matcher completes after the module's name and a dot, or a view's name and a dot.
    """
    from IPython.core.completer import SimpleCompletion, context_matcher

    def match(context: CompletionContext) -> SimpleMatcherResult:
        typed = _NAME_AND_DOT.search(context.text_until_cursor)
        value = shell.user_ns.get(typed[1]) if typed is not None else None
        if _is_view(value):
            names = own_names_first(value)
            members = [SimpleCompletion(name, type=_type(getattr(type(value), name, None))) for name in names]
            return {"completions": members, "matched_fragment": "", "ordered": True, "suppress": True}
        if value is not module:
            return {"completions": []}
        recorded = dir(module.ops)
        completions = [
            SimpleCompletion(name, type="function" if name in recorded else _type_in(module, name))
            for name in ordered_names(module, recorded)
        ]
        return {"completions": completions, "matched_fragment": "", "ordered": True, "suppress": True}

    matchers = shell.Completer.custom_matchers
    matchers[:] = [matcher for matcher in matchers if getattr(matcher, "matcher_identifier", "") != IDENTIFIER]
    matchers.append(context_matcher(identifier=IDENTIFIER)(match))


def _type_in(module: ModuleType, name: str) -> str:
    """Return the completion type of a module's name, guessed from its first letter if it is not imported yet."""
    return _type(vars(module).get(name)) or ("class" if name[0].isupper() else "function")


def _type(value: object) -> str | None:
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else None
