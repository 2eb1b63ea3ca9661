"""Operations: functions that record one or a few nodes, such as ``ex.tanh``. The same names are in ``ex``.

For each operation, help shows its formula, shapes, dtypes, gradient and an example: ``help(ex.ops.tanh)``. A star
import imports no operations, because ``all``, ``any``, ``max``, ``min`` and ``sum`` would shadow the builtins.
"""

import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from explorer.core import registry as _registry
from explorer.core.ir.expr import number_from as _number_from
from explorer.ops.catalogue import functions as _functions  # registers all operations
from explorer.ops.catalogue.help_pages import document as _document

if TYPE_CHECKING:
    # only type checkers import these names
    from explorer.ops.catalogue.functions import *  # noqa: F403  # one name for each operation

__all__: list[str] = []


def _kinds() -> dict[str, list[str]]:
    """Return the names of Explorer's operations, grouped by the first line of their package's docstring."""
    kinds: dict[str, list[str]] = {}
    for name in __dir__():
        package = ".".join(_registry.functions[name].__module__.split(".")[:3])
        if not package.startswith("explorer."):
            continue  # an operation of the user
        heading = (sys.modules[package].__doc__ or "").strip().splitlines()[0].rstrip(".")
        kinds.setdefault(heading, []).append(name)
    return kinds


def _listing() -> str:
    return "\n\n".join(
        f"{heading}\n{textwrap.fill(', '.join(names), 100, initial_indent='    ', subsequent_indent='    ')}"
        for heading, names in _kinds().items()
    )


def __getattr__(name: str) -> Any:
    """Return an operation's recording function; user-defined operations are included."""
    if name in _registry.functions:
        return _registry.functions[name]
    raise AttributeError(f"module 'explorer.ops' has no operation {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    """Return the names of all operations; other registered functions, such as ``tensor`` and ``grad``, are excluded."""
    excluded = ("explorer.core.", "explorer.data.", "explorer.gradients.", "explorer.ops.creation.")
    return sorted(
        [name for name, function in _registry.functions.items() if not function.__module__.startswith(excluded)]
    )


__doc__ = f"{__doc__}\n{_listing()}\n"
_document([function for function in vars(_functions).values() if inspect.isfunction(function)])
_number_from(1000)  # users' node numbers must not depend on how many nodes the help pages record
