"""Tables of operator types: what a later registration of a type replaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.core.errors import OperandError
from explorer.net.definition.operator_definition import OperatorDefinition, WeightReference
from explorer.net.operators.signature import Ints, Known
from explorer.net.operators.table import OperatorTable


def test_registering_a_type_again_removes_its_schema() -> None:
    """A new builder reads its own arguments, which the previous schema does not describe."""
    table = OperatorTable("test")

    @table.declare("Grow")
    def grow(x: Any, *, by: int) -> Any:
        return x + by

    assert table.schema("Grow") is not None
    table.register("Grow")(lambda op: op.tensor(0))
    assert table.schema("Grow") is None


def test_inputs_have_the_names_of_function_parameters() -> None:
    """A builder with a context parameter keeps the names of the function that it replaces."""
    table = OperatorTable("test")

    @table.register("Tile", "Repeat")
    def tile(x: ex.Expr, counts: Known[Ints], *others: ex.Expr, by: int = 1) -> ex.Expr:
        return x

    table.register("Tile")(lambda op: op.tensor(0))
    table.register("Own")(lambda op: op.tensor(0))
    for type in ("Tile", "Repeat"):
        signature = table.signature(type)
        assert signature is not None
        assert signature.input_names(1) == ("x",)
        assert signature.input_names(4) == ("x", "counts", "others.0", "others.1")
        assert signature.known_names == {"counts"}
    own = table.signature("Own")
    assert own is not None
    assert own.input_names(2) == ()


def test_parameters_of_an_operator_are_in_the_order_of_its_type() -> None:
    """Inputs that the file does not name have the function's names; weights and constants are at their position."""
    table = OperatorTable("test", input_names=lambda type, count: ("a", "b", "c", "d")[:count])

    @table.register("Mix")
    def mix(a: ex.Expr, b: ex.Expr, c: ex.Expr, *, by: int = 1) -> ex.Expr:
        return a

    def parameters(*inputs: str, **options: Any) -> tuple[tuple[str, int], ...]:
        return table.parameters(OperatorDefinition("Mix", "mix", inputs, ("y",), **options))

    assert parameters("x", "z") == (("a", 0), ("b", 1))
    assert parameters("x", "x", input_names={"a": "x", "b": "x"}) == (("a", 1), ("b", 1))
    weight = WeightReference("w", (2,), "float32")
    assert parameters("x", input_names={"c": "x"}, weights={"a": weight}, arguments={"b": 3, "by": 2}) == (
        ("a", -1),
        ("b", -1),
        ("c", 0),
    )
    assert table.parameters(OperatorDefinition("Unknown", "u", ("x", "z"), ("y",))) == (("", 0), ("", 1))


def test_an_exception_of_a_builder_is_the_cause_of_the_error() -> None:
    table = OperatorTable("test")
    refusal = OperandError("odd", rule="a length must be even", fix="pad it")

    @table.declare("Halve")
    def halve(x: Any) -> Any:
        raise refusal

    net = ex.Net("n", table)
    net.input("x", (3,))
    net.Halve("x", "y")
    net.output("y")
    with pytest.raises(OperandError, match="a length must be even") as caught:
        net.run(np.zeros(3, np.float32))
    assert caught.value is not refusal
    assert caught.value.__cause__ is refusal
