"""Declared characteristics hold; a wrong declaration would make plans compute wrong numbers."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.testing.laws.cases import Case
from explorer.testing.laws.characteristics import CHARACTERISTICS
from explorer.testing.laws.law import Law
from tests.laws.cases import every_case, parameters


def declared(law: Law) -> list[Any]:
    return parameters(case for case in every_case() if law.applies(case))


@pytest.mark.parametrize(
    ("law", "case"),
    [
        pytest.param(law, *parameter.values, id=f"{law.name.replace(' ', '_')}-{parameter.id}")
        for law in CHARACTERISTICS
        for parameter in declared(law)
    ],
)
def test_declared_characteristics_hold(law: Law, case: Case) -> None:
    """Check each law of a characteristic on each example of the operations that declare it."""
    law.check(case)


@pytest.mark.parametrize("law", CHARACTERISTICS, ids=lambda law: law.name.replace(" ", "_"))
def test_every_characteristic_is_declared_by_an_operation_and_compares_values(law: Law) -> None:
    assert sum(law.check(parameter.values[0]) for parameter in declared(law)) > 0
