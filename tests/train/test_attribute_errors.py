"""Hints for names in torch and Keras: each refers to an existing name, and other names give plain errors."""

from __future__ import annotations

import re
from typing import Any

import pytest

import explorer as ex
from explorer.train import attribute_errors

T = ex.train


def module() -> Any:
    module = T.Module("m", loss=T.MeanSquaredError(), optimizer=T.SGD(0.1))
    module.add_node(T.Linear("l", 2, 1))
    module.attach()
    return module


@pytest.mark.parametrize(
    ("owner", "table"),
    [
        (module, attribute_errors.MODULE),
        (lambda: T.Adam(0.1), attribute_errors.OPTIMIZER),
    ],
)
def test_the_error_of_a_foreign_name_suggests_a_replacement(owner: Any, table: dict[str, str]) -> None:
    for name, instead in table.items():
        with pytest.raises(AttributeError, match=re.escape(instead)):
            getattr(owner(), name)
    with pytest.raises(AttributeError, match=r"'nothing_such'$"):
        _ = owner().nothing_such


@pytest.mark.parametrize("table", [attribute_errors.MODULE, attribute_errors.OPTIMIZER])
def test_suggested_replacements_exist(table: dict[str, str]) -> None:
    whole, optimizer = module(), T.SGD(0.1)
    for text in table.values():
        for path in re.findall(r"\b(?:ex|module|optimizer)(?:\.\w+)+", text):
            first, *names = path.split(".")
            at: Any = {"ex": ex, "module": whole, "optimizer": optimizer}[first]
            for name in names:
                assert hasattr(at, name), path
                at = getattr(at, name)
