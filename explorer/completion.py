"""Completion of ``ex.`` and of views in IPython and JupyterLab: everyday names first, operations and others' last.

IPython sorts names by the alphabet, in which two hundred operations hide ``explore``, and sixty names of Jupyter's
widgets hide ``view.save``. One more matcher among its own answers right behind the dot: once a letter is typed,
completion is IPython's.
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


def own_names_first(value: object) -> list[str]:
    """Return the public names of an object: those that explorer gives it, then those that its bases bring along."""
    classes = [cls for cls in type(value).__mro__ if cls.__module__.partition(".")[0] == "explorer"]
    own = {name for cls in classes for name in vars(cls)} | vars(value).keys()
    return sorted([name for name in dir(value) if name[0] != "_"], key=lambda name: (name not in own, name.lower()))


def _is_view(value: object) -> bool:
    """Whether an object is one of explorer's and a widget: only then was its module imported."""
    bases = {cls.__module__.partition(".")[0] for cls in type(value).__mro__}
    return type(value).__module__.startswith("explorer.") and "ipywidgets" in bases


def order_completions(shell: InteractiveShell, module: ModuleType) -> None:
    """Enter a matcher into a shell, in place of an earlier one, for a dot behind the module's name, or a view's."""
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
    """The word of completion for a module's name, by its first letter where its value is not imported yet."""
    return _type(vars(module).get(name)) or ("class" if name[0].isupper() else "function")


def _type(value: object) -> str | None:
    """The word of completion for a value; None where completion has none."""
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        return "class"
    return "function" if callable(value) else None
