"""Operations and rules declared in a notebook cell are checked when the cell ends."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell

import explorer as ex
from explorer.core import registry
from explorer.testing import LawWarning, check_declarations

OPERATION = '''
class CubedInACell(ex.Elementwise):
    """x³."""

    examples = (ex.Example(ex.real(2, 3)),)
    {facet}

    def kernel(self, out, x):
        return cube_of(x, out)

    def gradient(self, g, y, x):
        return (g * 3 * x{factor},)


def cube_of(x, out):
    return np.power(x, 3, out=out)
'''
RULE = '''
class OwnRuleInACell(ex.Rule):
    """a − b, written otherwise."""

    numerics = "exact"
    roots = (ex.operation("subtract"),)
    other = ex.Reason("other_in_a_cell", "`{{a}}` is written otherwise.")

    def match(self, node, graph):
        a, b = graph.operands(node)
        return self.other.applied(a {sign} b, a=a) if b.operation.name != "negative" else None
'''


@pytest.fixture
def shell() -> Iterator[Any]:
    """A shell that has imported explorer, and whose declarations are removed afterwards."""
    InteractiveShell.clear_instance()
    running = InteractiveShell.instance()
    try:
        running.run_cell("import explorer as ex; import numpy as np").raise_error()
        yield running
    finally:
        InteractiveShell.clear_instance()
        registry.operations.pop("cubed_in_a_cell", None)
        registry.functions.pop("cubed_in_a_cell", None)
        for rule in [type(each) for each in ex.Rule.rules if each.name == "OwnRuleInACell"]:
            rule.remove()


def law_warnings(shell: Any, cell: str) -> list[str]:
    """Return the warnings about laws below a cell."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shell.run_cell(cell).raise_error()
    return [str(each.message) for each in caught if each.category is LawWarning]


@pytest.mark.spec("M-O4")
def test_a_wrong_gradient_in_a_cell_is_a_warning_below_it(shell: Any) -> None:
    """For a gradient of 3x for x³ the warning has the law, the operand and both values."""
    (text,) = law_warnings(shell, OPERATION.format(facet="", factor=""))
    assert text.splitlines()[:2] == [
        "CubedInACell breaks what it declares:",
        "  gradient ✗ at x = -0.9669: declared -2.901, by differences 2.805",
    ]
    assert "ex.check(CubedInACell)" in text
    assert "ex.testing.check_declarations(False)" in text
    assert "EXPLORER_CHECK_DECLARATIONS=0" in text


def test_a_wrong_property_in_a_cell_is_a_warning(shell: Any) -> None:
    (text,) = law_warnings(shell, OPERATION.format(facet="is_even = True", factor=" * x"))
    assert "even ✗ at x = 3: f(−x) = -27, f(x) = 27" in text


def test_a_rule_in_a_cell_that_changes_values_is_a_warning(shell: Any) -> None:
    (text,) = law_warnings(shell, RULE.format(sign="+"))
    assert "subtract(x, x) at x = 0.9009: with the rule 1.802, without 0" in text


def test_correct_classes_in_cells_give_no_warning(shell: Any) -> None:
    """A kernel may call a function that the cell declares below the class."""
    assert not law_warnings(shell, OPERATION.format(facet="monotone = True", factor=" * x"))
    assert not law_warnings(shell, RULE.format(sign="+ -"))
    assert not law_warnings(shell, "1 + 1")


def test_a_kernel_that_fails_is_reported_once(shell: Any) -> None:
    (text,) = law_warnings(
        shell, OPERATION.format(facet="", factor=" * x").replace("cube_of(x, out)\n", "missing(x)\n", 1)
    )
    assert text.count("NameError: name 'missing' is not defined") == 1


def test_an_invalid_example_is_reported(shell: Any) -> None:
    (text,) = law_warnings(
        shell, OPERATION.format(facet="examples = (ex.Example(ex.real(2), colour=3),)", factor=" * x")
    )
    assert "examples ✗ TypeError" in text


def test_the_check_can_be_disabled(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = OPERATION.format(facet="", factor="")
    check_declarations(False)
    try:
        assert not law_warnings(shell, wrong)
    finally:
        check_declarations(True)
    monkeypatch.setenv("EXPLORER_CHECK_DECLARATIONS", "0")
    assert not law_warnings(shell, wrong)
    monkeypatch.delenv("EXPLORER_CHECK_DECLARATIONS")
    assert law_warnings(shell, wrong)
    with pytest.raises(ex.OperandError, match="enabled"):
        check_declarations("no")  # type: ignore[arg-type]


def test_the_check_does_not_evaluate_registrations_of_the_default_plan(shell: Any) -> None:
    handle = (ex.tensor([1.0, 2.0]) * 3).eval_register()
    assert law_warnings(shell, OPERATION.format(facet="", factor=""))
    with pytest.raises(ex.StateError):
        handle.data()
    ex.default_plan().eval()
    np.testing.assert_array_equal(handle.data(), [3.0, 6.0])


def test_a_script_that_declares_an_operation_does_not_import_the_laws() -> None:
    script = (
        "import explorer as ex, numpy as np, sys\n"
        + OPERATION.format(facet="", factor=" * x")
        + "print('explorer.testing' in sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"


def test_unknown_attributes_of_an_operation_raise_an_error() -> None:
    """This includes a class without attributes that already has an instance."""
    with pytest.raises(TypeError, match="colour"):
        ex.operation("tanh")(colour=3)
