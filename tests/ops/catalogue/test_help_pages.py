"""The help page of every operation has its facts and an example."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core import registry


@pytest.mark.parametrize("name", sorted({*dir(ex.ops)}))
def test_help_of_an_operation_has_its_facts_and_an_example(name: str) -> None:
    """Test ``ex.tanh`` and ``ex.softmax``, an operation and a function that records one or more."""
    text = pydoc.plain(pydoc.render_doc(getattr(ex, name)))
    assert name in text.split("\n", 3)[2]
    assert re.search(r"^ *>>> .*|Example: see ``ex\.\w+``", text, re.M)
    assert "fails: " not in text
    if name in registry.operations:
        assert [row for row in ("Shapes", "Dtypes", "Gradient", "Laws") if f"    {row}  " not in text] == []
        assert f"ex.check(ex.{name})" in text or f"ex.check(ex.operation('{name}'))" in text
    else:
        assert "composed of other operations" in text
    assert max(map(len, (inspect.getdoc(getattr(ex, name)) or "").splitlines())) <= 200


def test_the_facts_in_help_come_from_the_class() -> None:
    class Cubed(ex.Elementwise):
        """x³."""

        name = "cubed_on_a_page"
        examples = (ex.Example(ex.real(2, 3)),)

        def kernel(self, out: Any, x: Any) -> Any:
            return np.power(x, 3, out=out)

        def gradient(self, upstream: Any, result: Any, x: Any) -> Any:
            raise ZeroDivisionError("in the gradient")

    operation: Any = ex.operation("cubed_on_a_page")()
    text = operation.__doc__
    for known in (registry.operations, registry.functions):
        del known["cubed_on_a_page"]
    assert text.splitlines() == [
        "cubed_on_a_page(x) → expression",
        "",
        "x³.",
        "",
        "Shapes    any; the result has the operand's",
        "Dtypes    bool, int64, float16, float32, float64, complex128 stay",
        "Gradient  fails: ZeroDivisionError: in the gradient",
        "Laws      its type, gradient and batches; elementwise. ex.check(ex.cubed_on_a_page) tries them.",
        "",
        ">>> ex.evaluate(ex.cubed_on_a_page(np.array([-1., 0., 1.])))",
        "array([-1.,  0.,  1.])",
    ]
    assert Cubed.__doc__ == "x³."
    assert "of x: g * (1 - square(y));" in (ex.tanh.__doc__ or "")
    assert "of b: -g * y / b;" in (ex.divide.__doc__ or "")
