"""Attributes of users' objects and classes: metaclasses that raise, renamed attributes, and misspellings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.attributes import misnamed
from explorer.core.ir.expr import _RENAMED as FACETS
from explorer.plan.rewrite.rule import _RENAMED as OF_RULES
from tests.support.refusals import refused


class Raising(type):
    """Metaclass whose missing attributes raise another kind of error."""

    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Hostile(metaclass=Raising):
    """An object that is no data."""


class Number(metaclass=Raising):
    """A user-defined number that converts to an expression."""

    def __expr__(self) -> ex.Expr:
        return ex.tensor([1.0, 2.0])


GIVEN = ex.tensor([1.0, 2.0])


@pytest.mark.parametrize(
    "use",
    [
        lambda value: ex.evaluate(GIVEN + value),
        ex.evaluate,
        lambda value: ex.EvalPlan().register(value),
        ex.eval_register,
        lambda value: ex.same(value, value),
        lambda value: ex.copyto(ex.tensor([0.0, 0.0]), value),
        lambda value: ex.ScalableTensor((2,), np.float64).push_back(value),
        lambda value: ex.explore(value, run=False),
        lambda value: ex.function(lambda x: x + value)(GIVEN),
    ],
)
def test_a_class_whose_metaclass_raises_is_treated_like_others(use: Callable[[Any], Any]) -> None:
    """Such data is accepted, and other objects are rejected with explorer's errors."""
    use(Number())
    if use is not ex.evaluate:  # returns other values than expressions unchanged
        with pytest.raises(ex.ExplorerError):
            use(Hostile())
    with pytest.raises(ex.OperandError):
        ex.is_matrix(Hostile())


@pytest.mark.parametrize(("old", "name"), FACETS.items())
def test_a_renamed_facet_raises_an_error_with_the_new_name(old: str, name: str) -> None:
    with refused(ex.DeclarationError, old, name, "Declared"):
        type("Declared", (ex.Elementwise,), {"__doc__": "x.", old: True})


@pytest.mark.parametrize(("old", "name"), OF_RULES.items())
def test_a_renamed_attribute_of_rules_raises_an_error_with_the_new_name(old: str, name: str) -> None:
    with refused(ex.DeclarationError, old, name):
        type("Declared", (ex.Rule,), {"__doc__": "x.", old: ()}, abstract=True)


def test_a_misspelt_facet_raises_an_error_unlike_custom_attributes() -> None:
    with refused(ex.DeclarationError, "commutativ", "commutative"):
        type("Declared", (ex.Elementwise,), {"__doc__": "x.", "commutativ": True}, abstract=True)
    with refused(ex.DeclarationError, "producer", "producers"):
        type("Declared", (ex.Rule,), {"__doc__": "x.", "producer": ()}, abstract=True)

    with refused(ex.DeclarationError, "has_works", "has_work", "Declared"):
        type("Declared", (ex.Pass,), {"__doc__": "x.", "name": "x", "has_works": True})
    with refused(ex.DeclarationError, "adressable", "addressable", "Declared"):
        type("Declared", (ex.Device,), {"adressable": False})
    with refused(ex.DeclarationError, "foward", "forward", "Declared"):
        type("Declared", (ex.layers.Layer,), {"foward": lambda self, input: input})
    with refused(ex.DeclarationError, "topolgy", "topology", "Declared"):
        type("Declared", (ex.layers.Composite,), {"topolgy": None})

    class Kept(ex.Elementwise, abstract=True):
        """x, kept."""

        _commutativ = True
        table = (1, 2)
        kernels: int = 3

    class Below(Kept, abstract=True):
        """The same again."""

        table = (3,)

    assert Below.table == (3,)


@pytest.mark.parametrize(
    ("base", "renamed"),
    [(ex.Operation, FACETS), (ex.Rule, OF_RULES), (ex.Pass, {}), (ex.Device, {}), (ex.layers.Layer, {})],
)
def test_no_class_of_explorer_has_an_attribute_without_effect(base: type, renamed: dict[str, str]) -> None:
    """This is not checked at import time."""
    below = [*base.__subclasses__()]
    for cls in below:  # grows during the iteration, since subclasses are appended
        below += cls.__subclasses__()
    own = [cls for cls in below if cls.__module__.startswith("explorer.")]
    assert own or base is ex.Device
    assert {cls.__name__: names for cls in own if (names := misnamed(cls, base, renamed))} == {}


def test_the_import_does_not_load_the_random_library() -> None:
    """Loading it takes as long as a hundred of explorer's modules."""
    process = subprocess.run(
        [sys.executable, "-c", "import sys, explorer; print('numpy.random' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "False\n"


@pytest.mark.parametrize(("module", "old", "name"), [(ex, "Link", "Rule"), (ex.layers, "PFeedbackNoOutput", "PNo")])
def test_the_error_of_a_renamed_public_name_contains_the_new_name(module: Any, old: str, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"{old}.*{name}"):
        getattr(module, old)
