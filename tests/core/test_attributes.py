"""Attributes of users' objects and classes: metaclasses that raise, old names and slips of them."""

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
    """A class of classes whose missing attributes raise an error of another kind."""

    def __getattr__(cls, name: str) -> Any:
        raise KeyError(name)


class Hostile(metaclass=Raising):
    """An object that is no data."""


class Number(metaclass=Raising):
    """A number of a user's own, which stands for an expression."""

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
def test_a_class_whose_metaclass_raises_is_a_class_like_others(use: Callable[[Any], Any]) -> None:
    """Data whose class's class answers no lookup is data; what is none is refused with explorer's errors."""
    use(Number())
    if use is not ex.evaluate:  # which returns what is no expression as it is
        with pytest.raises(ex.ExplorerError):
            use(Hostile())
    with pytest.raises(ex.OperandError):
        ex.is_matrix(Hostile())


@pytest.mark.parametrize(("old", "name"), FACETS.items())
def test_an_old_name_of_a_facet_is_refused_with_its_new_one(old: str, name: str) -> None:
    with refused(ex.DeclarationError, old, name, "Declared"):
        type("Declared", (ex.Elementwise,), {"__doc__": "x.", old: True})


@pytest.mark.parametrize(("old", "name"), OF_RULES.items())
def test_an_old_name_of_an_attribute_of_rules_is_refused_with_its_new_one(old: str, name: str) -> None:
    with refused(ex.DeclarationError, old, name):
        type("Declared", (ex.Rule,), {"__doc__": "x.", old: ()}, abstract=True)


def test_a_slip_of_a_facets_name_is_refused_and_what_is_the_users_own_is_not() -> None:
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
        """The same."""

        table = (3,)

    assert Below.table == (3,)


@pytest.mark.parametrize(
    ("base", "renamed"),
    [(ex.Operation, FACETS), (ex.Rule, OF_RULES), (ex.Pass, {}), (ex.Device, {}), (ex.layers.Layer, {})],
)
def test_no_class_of_explorers_own_has_a_name_without_effect(base: type, renamed: dict[str, str]) -> None:
    """The import does not compare them."""
    below = [*base.__subclasses__()]
    for cls in below:  # grows while we iterate: classes below are appended
        below += cls.__subclasses__()
    own = [cls for cls in below if cls.__module__.startswith("explorer.")]
    assert own or base is ex.Device
    assert {cls.__name__: names for cls in own if (names := misnamed(cls, base, renamed))} == {}


def test_the_import_loads_no_random_numbers() -> None:
    """Their library takes as long to load as a hundred modules of explorer's."""
    process = subprocess.run(
        [sys.executable, "-c", "import sys, explorer; print('numpy.random' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "False\n"


@pytest.mark.parametrize(("module", "old", "name"), [(ex, "Link", "Rule"), (ex.layers, "PFeedbackNoOutput", "PNo")])
def test_an_old_public_name_tells_the_new_one(module: Any, old: str, name: str) -> None:
    with pytest.raises(AttributeError, match=rf"{old}.*{name}"):
        getattr(module, old)
