"""Each public function and method rejects a misspelt option and names similar valid ones."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args, get_type_hints

import pytest

import explorer as ex
from explorer.api import ExpressionView
from explorer.core.argument_checks import has_options
from explorer.core.errors import ExplorerError
from explorer.core.ir.explore_options import ExploreOptions, PlannedViewOptions, RecordOption, ViewOptions
from explorer.course import Card, Exercise, Verdict
from explorer.plan.options import OPTIONS, PlannerOptions
from explorer.plan.passes.order import HEURISTICS
from explorer.plan.pipeline import PassName, pass_names
from explorer.record.view_choices import DIRECTIONS, THEMES
from explorer.reports import ExplorableComparison
from explorer.run.diagnosis.what_if import WhatIf
from explorer.run.evalplan import CostsOption, PlanOptions
from explorer.run.execution.executors import ExecutorName
from explorer.view.widget.widget import GraphView

MODULES = {"ex": ex, "ex.layers": ex.layers, "ex.train": ex.train, "ex.testing": ex.testing}
RETURNED = (ExpressionView, ExplorableComparison, WhatIf, Exercise, Card, Verdict)
"""classes without a public name that functions return"""
PLAIN_DATA = {ex.Recording, ex.Decision, ex.Progress, ex.View, ex.ComparedPlans}
"""classes that explorer creates and users only read, and types tested together with their class"""


def public() -> Iterator[tuple[str, Any]]:
    """Yield the public names and their objects."""
    for module_name, module in MODULES.items():
        for name in dir(module):
            if name[0] != "_" and "explorer" in str(getattr(value := getattr(module, name), "__module__", "")):
                yield f"{module_name}.{name}", value


def closed() -> dict[str, Callable[..., Any]]:
    """Return public functions, constructors and methods without ``**kwargs``."""
    return {name: call for name, call in calls().items() if has_options(call) and not _is_open(call)}


def calls() -> dict[str, Callable[..., Any]]:
    """Return functions, constructors and methods that users call, by qualified name."""
    results: dict[str, Callable[..., Any]] = {}
    classes = list(RETURNED)
    for _, value in public():
        if inspect.isclass(value):
            classes += [value] if value not in PLAIN_DATA else []
        elif inspect.isfunction(value) and value.__name__[0] != "_":
            results[value.__qualname__] = value
    for cls in classes:
        for name, method in _methods(cls).items():
            is_constructor = name == "__init__" and not issubclass(cls, BaseException)
            if inspect.isfunction(method) and (name[0] != "_" or is_constructor):
                results[method.__qualname__] = method
    return results


def _methods(cls: type) -> dict[str, Any]:
    """Return the methods that explorer's classes in the MRO declare, as the class overrides them."""
    own = [base for base in reversed(cls.__mro__) if base.__module__.partition(".")[0] == "explorer"]
    return {name: method for base in own for name, method in vars(base).items()}


def _is_open(call: Callable[..., Any]) -> bool:
    """Return whether a function passes options on; its signature may list them (options_of)."""
    return bool(inspect.unwrap(call).__code__.co_flags & inspect.CO_VARKEYWORDS)


def misspelt(call: Callable[..., Any]) -> tuple[str, str]:
    """Return the longest option of a function with one additional letter, and the correct name."""
    options = [
        name
        for name, each in inspect.signature(call).parameters.items()
        if each.kind is each.KEYWORD_ONLY
        or (each.kind is each.POSITIONAL_OR_KEYWORD and each.default is not each.empty)
    ]
    right = max(options, key=len)
    return right[:-1] + "x" + right[-1], right


@pytest.mark.parametrize("name", sorted(closed()))
def test_misspelt_options_are_refused(name: str) -> None:
    call = closed()[name]
    wrong, right = misspelt(call)
    with pytest.raises(ExplorerError) as refusal:
        call(**{wrong: None})
    assert repr(wrong) in str(refusal.value)
    assert right in str(refusal.value)


X = ex.tensor([1.0, 2.0])


def plan_of(**options: Any) -> ex.EvalPlan:
    plan = ex.EvalPlan(**options)
    plan.register(X + 1)
    return plan.prepare()


def net_of_one() -> Any:
    net = ex.Net("positive")
    net.output(net.Relu(net.input("x", (2,)), "y"))
    return net


OPEN: dict[str, tuple[Callable[..., Any], str]] = {
    "explore": (lambda **options: ex.explore(X + 1, **options), "height"),
    "Expr.explore": (lambda **options: (X + 1).explore(**options), "height"),
    "EvalPlan.explore": (lambda **options: plan_of().explore(**options), "height"),
    "Net.explore": (lambda **options: net_of_one().explore(**options), "height"),
    "Layer.explore": (lambda **options: ex.layers.Linear("l", 2, 3).explore(**options), "height"),
    "ExplorableComparison.explore": (lambda **options: plan_of().compare(plan_of()).explore(**options), "height"),
    "evaluate": (lambda **options: ex.evaluate(X + 1, **options), "without"),
    "EvalPlan.__init__": (plan_of, "without"),
    "Net.plan": (lambda **options: net_of_one().plan((2,), **options), "without"),
    "Net.preview_plan": (lambda **options: net_of_one().preview_plan(**options), "without"),
    "Net.run": (lambda **options: net_of_one().run(**options), "x"),
    "Net.add": (lambda **options: net_of_one().add("Softmax", "y", "z", **options), "axis"),
    "Layer.__init__": (lambda **options: ex.layers.Linear("l", 2, 3, **options), "policies"),
    "Layer.feed_forward": (lambda **options: ex.layers.Linear("l", 2, 3).feed_forward(**options), "input"),
}
"""functions that pass options on → a call and one of the options"""


@pytest.mark.parametrize("name", sorted(OPEN))
def test_misspelt_options_are_refused_after_they_are_passed_on(name: str) -> None:
    call, right = OPEN[name]
    wrong = right[:-1] + "x" + right[-1]
    with pytest.raises(ExplorerError) as refusal:
        call(**{wrong: None})
    assert repr(wrong) in str(refusal.value)
    assert right in str(refusal.value)


VARYING = {
    "Blob.value", "Data.evaluate", "Layer.feed_backward",
    "Layer.feed_forward", "Layer.expand", "Layer.forward", "Net.add", "Net.build", "Net.run", "Registry.create",
    "Registry.register",
    "feed_backward", "feed_forward",
    "Tensor.at", "Tensor.index", "Workspace.fetch_blob", "cond", "evaluate", "fold_trees", "grad",
    "map", "scan", "try_cast", "while_loop",
}  # fmt: skip
"""functions that return containers as given, or as a user's function or a file defines them"""
ENGINE = {"Constant", "Container", "Composite", "Device", "Filler", "Gaussian", "Layer", "Operation", "PolicyClass"}
ENGINE |= {"Recurrent", "Uniform", "VarScale"}
"""classes with methods that the engine calls with arrays of any device"""


def test_public_functions_declare_their_result_types() -> None:
    untyped = {name for name, call in calls().items() if inspect.signature(call).return_annotation in ("Any", Any)}
    assert {name for name in untyped - VARYING if name.partition(".")[0] not in ENGINE} == set()


@pytest.mark.parametrize(
    ("name", "returned"),
    [
        ("explore", "View"),
        ("EvalPlan.explore", "View"),
        ("Net.explore", "View"),
        ("Module.explore", "View"),
        ("EvalPlan.compare", "ComparedPlans"),
        ("EvalPlan.what_if", "WhatIf"),
        ("EvalPlan.register", "Handle | tuple[Handle, ...]"),
        ("Module.plan", "EvalPlan"),
        ("open", "Net"),
        ("tensor", "Tensor"),
    ],
)
def test_types_of_results_are_public_names(name: str, returned: str) -> None:
    assert str(inspect.signature(calls()[name]).return_annotation).strip("'") == returned
    assert inspect.isclass(getattr(ex, returned.partition(" | ")[0]))


def test_a_plan_of_expressions_is_typed_with_expressions() -> None:
    with pytest.raises(ex.OperandError, match=r"expressions must be registered[\s\S]*plan.register\(loss\)"):
        ex.EvalPlan(X + 1)  # type: ignore[arg-type]


def test_view_options_are_typed_for_editor_completion() -> None:
    """Each is a parameter or a trait of the view; other options belong to planning and other compilers."""
    options, hints = set(ViewOptions.__annotations__), get_type_hints(ViewOptions)
    known = set(inspect.signature(GraphView.__init__).parameters) | set(GraphView.class_traits()) | {"source"}
    assert options <= known
    assert set(ExploreOptions.__annotations__) - options == {"run", "record", "kernels", "plan", "inputs", "compiler"}
    assert (get_args(hints["theme"]), get_args(hints["direction"])) == (THEMES, DIRECTIONS)


OPTIONS_OF: dict[str, type] = {
    "explore": ExploreOptions,
    "EvalPlan.__init__": PlanOptions,
    "EvalPlan.explore": ViewOptions,
    "ExplorableComparison.explore": ViewOptions,
    "Expr.explore": PlannedViewOptions,
    "Layer.explore": PlannedViewOptions,
    "Module.explore": ViewOptions,
    "Module.plan": PlanOptions,
    "Net.explore": ViewOptions,
    "Net.plan": PlanOptions,
    "Net.preview_plan": PlanOptions,
    "evaluate": PlanOptions,
}
"""functions that pass options on → the declaration of the options"""


@pytest.mark.spec("H-4")
@pytest.mark.parametrize("name", OPTIONS_OF)
def test_signatures_list_the_options_that_are_passed_on(name: str) -> None:
    """``help``, ``?`` and completion show each option by name, as type checkers do."""
    call = calls()[name]
    listed = inspect.signature(call).parameters
    assert set(get_type_hints(OPTIONS_OF[name])) <= set(listed)
    assert not any(each.kind is each.VAR_KEYWORD for each in listed.values())
    assert "Unpack" in str(inspect.unwrap(call).__annotations__["options"])


@pytest.mark.spec("H-4")
def test_plan_options_declare_what_plans_accept() -> None:
    own = set(inspect.signature(ex.EvalPlan.__init__).parameters) - {"self", "expressions"}
    assert set(PlanOptions.__annotations__) == own
    assert set(PlannerOptions.__annotations__) == set(OPTIONS) - {"without", "numerics"}
    assert get_args(get_type_hints(PlannerOptions)["order"])[0] == Literal[HEURISTICS]


@pytest.mark.spec("H-4")
def test_help_and_completion_show_options_with_their_values() -> None:
    text = pydoc.plain(pydoc.render_doc(ex.explore))
    assert "theme: Literal['auto', 'light', 'dark'] = ..." in text
    for name in PlanOptions.__annotations__:
        assert f"{name}: " in pydoc.plain(pydoc.render_doc(ex.evaluate))


def test_literal_choices_of_options_are_accepted_by_plans() -> None:
    """Other values may be accepted, too."""
    for name in get_args(PassName):
        assert name not in pass_names(plan_of(without=name).options.passes)
    assert set(get_args(ExecutorName)) <= set(ex.executors())
    for choice, option in ((CostsOption, "costs"), (RecordOption, "record")):
        for value in get_args(choice):
            assert getattr(plan_of(**{option: value}), option) == value
