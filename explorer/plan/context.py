"""Cache key for everything a plan depends on besides its graph.

Planning is deterministic: equal graphs, options, rules and kernels give equal plans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from explorer.core.ir.expr import kernels
from explorer.plan.options import Options
from explorer.plan.rewrite.rule import Rule

_contexts: dict[Hashable, int] = {}
_latest: tuple[Options | None, tuple[Rule, ...], tuple[Callable[..., Any], ...], int] = None, (), (), 0
"""arguments and result of the last call, because hashing options is slow"""


def planning_context(options: Options) -> int:
    """Return an id for ``options`` with the registered rules and kernels; equal combinations have equal ids."""
    global _latest
    # Each copy is one call of C code, during which no other thread registers anything.
    rules, functions = tuple(Rule.rules), tuple(dict.values(kernels))
    # Read the whole tuple at once, because another thread may replace it.
    last_options, last_rules, last_functions, context_id = _latest
    if options is not last_options or rules != last_rules or functions != last_functions:
        context_id = _contexts.setdefault((options, rules, functions), len(_contexts))
        _latest = options, rules, functions, context_id
    return context_id
