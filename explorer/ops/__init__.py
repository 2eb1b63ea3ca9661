"""Operations: the functions that record a node each, or a few, as ``ex.tanh`` does; the same names are in ``ex``.

``help(ex.ops.tanh)`` shows the formula, shapes, dtypes, gradient and an example of one. A star import brings nothing:
``all``, ``any``, ``max``, ``min`` and ``sum`` would hide Python's own.
"""

import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

from explorer.core import registry as _registry
from explorer.core.ir.expr import number_from as _number_from
from explorer.ops.catalogue import functions as _functions  # registers every family
from explorer.ops.catalogue.help_pages import document as _document

if TYPE_CHECKING:
    # type checkers alone read these names: one for each registered operation
    from explorer.ops.catalogue.functions import *  # noqa: F403  # one name for each operation

__all__: list[str] = []


def _kinds() -> dict[str, list[str]]:
    """Names of the operations by the heading of their room."""
    kinds: dict[str, list[str]] = {}
    for name in __dir__():
        module = _registry.functions[name].__module__
        room = ".".join(module.split(".")[:3])
        heading = (sys.modules[room].__doc__ or "").strip().splitlines()[0].rstrip(".")
        kinds.setdefault(heading, []).append(name)
    return kinds


def _listing() -> str:
    return "\n\n".join(
        f"{heading}\n{textwrap.fill(', '.join(names), 100, initial_indent='    ', subsequent_indent='    ')}"
        for heading, names in _kinds().items()
    )


def __getattr__(name: str) -> Any:
    """The recording function of an operation, those that users declare among them."""
    if name in _registry.functions:
        return _registry.functions[name]
    raise AttributeError(f"module 'explorer.ops' has no operation {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    """Names of all operations; what makes tensors, data and gradients is registered with them, and is none."""
    apart = ("explorer.core.", "explorer.data.", "explorer.gradients.", "explorer.ops.creation.")
    return sorted([name for name, function in _registry.functions.items() if not function.__module__.startswith(apart)])


__doc__ = f"{__doc__}\n{_listing()}\n"
_document([function for function in vars(_functions).values() if inspect.isfunction(function)])
_number_from(1000)  # pages of help record examples: the numbers that users see do not depend on how many
