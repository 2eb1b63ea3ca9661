"""``ex.check``: the laws of explorer, on a class of the user's own."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from explorer.core import registry
from explorer.core.checked_functions import named
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.layers import Layer
from explorer.plan.graph.pass_base import Pass
from explorer.plan.rewrite.rule import Rule
from explorer.testing.laws.cases import cases_of
from explorer.testing.laws.characteristics import CHARACTERISTICS
from explorer.testing.laws.facets import FACETS, undeclared
from explorer.testing.laws.law import Law, LawError
from explorer.testing.laws.layer_laws import layer_results
from explorer.testing.laws.report import LawReport, LawResult
from explorer.testing.laws.rule_laws import pass_results, rule_results

LAWS: tuple[Law, ...] = (*FACETS, *CHARACTERISTICS)
"""the laws of operations, in the order of a report"""
_QUICK = (FACETS[0], *CHARACTERISTICS, *[law for law in FACETS[1:] if law.name != "gradient of the gradient"])
"""laws for a quick check, the cheapest first"""


@named
def check(what: Any, *programs: Expr, inputs: Mapping[str, Any] | None = None) -> LawReport:
    """Check the laws of explorer on an operation, a rewrite rule, a pass or a layer, your own or a built-in one.

    An operation (its class, or what records it: ``ex.tanh``) is computed on its ``examples``: its gradient must equal
    central differences in float64, each declared property (``is_even``, ``monotone``, ``linear``, ``range`` …) must
    hold, batched operands must give what a loop gives, the result must have the declared type.
    A rule is asked in programs written with its roots, or in ``programs`` in which it should match: their values with
    the rule must be those without it; a pass likewise, in a plan of it and the passes that a plan needs. A layer's
    gradients, of inputs and parameters, must equal differences; ``inputs`` are types or values by port, where no shape
    fits by itself.

    Returns a report, one line a law; it is true if all laws hold, and ``report.assert_ok()`` raises if not. Operands
    are drawn with a seed: the same class gives the same report. Raises OperandError for other things, and where nothing
    can be drawn.

    >>> class Cubed(ex.Elementwise):
    ...     "x³."
    ...     examples = (ex.Example(ex.real(2, 3)),)
    ...     def kernel(self, out, x):
    ...         return np.power(x, 3, out=out)
    ...     def gradient(self, upstream, result, x):
    ...         return (upstream * 3 * x,)
    >>> ex.check(Cubed)
    Cubed: 6 of 7 laws hold
      result type = declared type ✓ 1 value
      out is written whole ✓ 6 values
      operands are left alone ✓ 6 values
      gradient ✗ at x = -0.9669: declared -2.901, by differences 2.805
      gradient of the gradient ✓ 1 value
      batched = loop ✓ 18 values
      elementwise ✓ 5 values
    """
    if isinstance(what, type) and issubclass(what, Layer):
        what = _default_layer(what)
    rule = what() if isinstance(what, type) and issubclass(what, Rule) else what
    if isinstance(rule, Rule):
        return LawReport(rule.name, rule_results(rule, programs))
    planning_pass = what() if isinstance(what, type) and issubclass(what, Pass) else what
    if isinstance(planning_pass, Pass):
        return LawReport(type(planning_pass).__name__, pass_results(planning_pass, programs))
    if programs:
        raise OperandError(
            f"a check of {what!r:.80} with {len(programs)} programs",
            rule="programs must be given for a rewrite rule or a pass only, which should change them",
            fix="ex.check(operation), ex.check(layer, inputs={…})",
        )
    if isinstance(what, Layer):
        return LawReport(f"{type(what).__name__} {what.name!r}", layer_results(what, inputs))
    operation = _operation(what)
    name = operation.__name__ if isinstance(operation, type) else type(operation).__name__
    return LawReport(name, operation_results(operation))


def _operation(what: Any) -> Operation | type[Operation]:
    """Return the operation that is meant: a class, an instance without or with attributes, or a recording function."""
    if isinstance(what, type) and issubclass(what, Operation):
        return what
    if isinstance(what, Operation):
        return what if what.attribute_names else type(what)
    name = getattr(what, "__name__", "")
    if callable(what) and registry.functions.get(name) is what and name in registry.operations:
        return registry.operations[name]
    raise OperandError(
        f"a check of {what!r:.80}",
        rule="ex.check must be given an operation, a rewrite rule, a pass or a layer: its class, or an instance",
        fix='ex.check(MyOperation), ex.check(ex.tanh), ex.check(ex.operation("full")), ex.check(MyRule, y)',
    )


def _default_layer(layer_class: type[Layer]) -> Layer:
    try:
        return layer_class("checked")
    except Exception as error:
        raise OperandError(
            f"a check of the layer class {layer_class.__name__}, which cannot be made without arguments: {error}",
            rule="a class of layers that needs arguments must be checked on one of its layers",
            fix=f'ex.check({layer_class.__name__}("checked", …))',
        ) from error


def operation_results(
    operation: Operation | type[Operation], laws: tuple[Law, ...] = LAWS, deadline: float | None = None
) -> tuple[LawResult, ...]:
    """Return the results of laws on the cases of an operation; laws that begin after a deadline are left out.

    ``deadline`` is a time of ``time.perf_counter``.
    """
    operation_class = operation if isinstance(operation, type) else type(operation)
    cases = cases_of(operation)
    results = []
    for law in laws:
        if _is_late(deadline):
            break
        try:
            compared = [law.check(case) for case in cases if law.applies(case) and not _is_late(deadline)]
        except LawError as error:
            results.append(LawResult(law.name, False, str(error)))
        except Exception as error:  # a facet of the user's may raise anything, and the report says so
            results.append(LawResult(law.name, False, f"{type(error).__name__}: {error}"))
        else:
            if compared:
                results.append(LawResult(law.name, True, f"{sum(compared)} value{'s' * (sum(compared) != 1)}"))
            elif law.name in undeclared(operation_class):
                results.append(LawResult(law.name, None, f"not declared: {undeclared(operation_class)[law.name]}"))
    return tuple(results)


def quick_results(declared: type[Operation] | type[Rule], seconds: float) -> tuple[LawResult, ...]:
    """Return the results of the laws of an operation or a rule that can be checked in about so many seconds."""
    start = time.perf_counter()
    if issubclass(declared, Rule):
        # Writing programs is half of the work, planning and computing them the other.
        return rule_results(declared(), deadline=start + seconds / 3)
    return operation_results(declared, _QUICK, start + seconds)


def _is_late(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() > deadline
