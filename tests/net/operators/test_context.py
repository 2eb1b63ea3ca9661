"""Parameters that a builder reads from its operator: only of the requested type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.net import OperatorDefinition
from explorer.net.operators.context import OperatorContext

VALUES = (True, False, 0, 3, -1, 2.5, 1j, "3", None, (), (1,), (1, 2), (1, 2, 3), (1, True), (1, 2.0), ("a",))
KINDS: dict[str, tuple[Any, ...]] = {
    "integer": (0, 3, -1),
    "number": (0, 3, -1, 2.5),
    "flag": (True, False),
    "integers": (0, 3, -1, (), (1,), (1, 2), (1, 2, 3)),
    "pair": (0, 3, -1, (1,), (1, 2)),
}


def context(operands: tuple[Any, ...] = (), **fields: Any) -> OperatorContext:
    """Return an operator with these operands and fields, whose weights are ones."""

    def ones(name: str) -> ex.Tensor:
        return ex.tensor(np.ones(2, np.float32))

    inputs = tuple(f"x{place}" for place in range(len(operands)))
    return OperatorContext(OperatorDefinition("my.Type", "op", inputs, ("y",), **fields), operands, ones)


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_must_have_the_requested_type(kind: str, value: Any) -> None:
    """Booleans are not numbers and vice versa; the error names the parameter and the rule."""
    op = context(arguments={"key": value})
    if repr(value) in map(repr, KINDS[kind]):  # 1 == True, but has another type
        result = getattr(op, kind)("key")
        items = value if isinstance(value, tuple) else (value,)
        assert result == {"integers": items, "pair": (items * 2)[:2]}.get(kind, value)
        assert type(result) is (tuple if kind in ("integers", "pair") else type(value))
    else:
        with pytest.raises(ex.OperandError, match="key=") as error:
            getattr(op, kind)("key")
        assert error.value.rule.startswith("my.Type: key must be ")


def test_a_parameter_is_an_argument_or_a_named_operand_or_the_default() -> None:
    both = context((5, 6), arguments={"key": 1}, input_names={"key": "x1"})
    assert both.integer("key", 9) == 1
    named = context((5, 6), input_names={"key": "x1"})
    assert (named.integer("key", 9), named.operand(0, "key"), named.operand(0)) == (6, 6, 5)
    assert named.has("key")
    bare = context((5, 6))
    assert bare.integer("key", 9) == 9
    assert not bare.has("key")
    with pytest.raises(ex.OperandError, match="'key' is missing; given: none"):
        bare.integer("key")
    assert context(arguments={"key": None}).has("key")


def test_operands_are_tensors_or_numbers() -> None:
    """A number is a constant with PyTorch's dtype; strings are not tensors, and operands are not values."""
    x = ex.tensor(np.zeros((2, 3), np.float32))
    op = context((x, True, 2, 2.5, 1j, "word", (x, x)))
    assert op.x is x
    assert [op.tensor(place).dtype.name for place in range(1, 5)] == ["bool", "int64", "float32", "complex64"]
    assert [ex.evaluate(op.tensor(place)).item() for place in range(1, 5)] == [True, 2, 2.5, 1j]
    with pytest.raises(ex.OperandError, match="operand 5 is 'word'"):
        op.tensor(5)
    with pytest.raises(ex.OperandError, match=r"7 operands given\n.*at least 8 operands"):
        op.operand(7)
    assert context((x, (x, x), x)).tensors() == (x, x, x, x)


def test_a_weight_must_be_declared() -> None:
    reference = ex.net.definition.definition.WeightReference("op.w", (2,), "float32")
    op = context(weights={"w": reference})
    assert op.weight("w").shape == (2,)
    assert op.optional_weight("w") is not None
    assert op.optional_weight("bias") is None
    with pytest.raises(ex.OperandError, match="'bias' is missing; declared: w"):
        op.weight("bias")


def test_only_one_value_of_a_parameter_is_supported() -> None:
    op = context(arguments={"mode": "same"})
    op.only("mode", "same")
    op.only("absent", 1)
    for name, expected, default in (("mode", "valid", "valid"), ("absent", 1, 2)):
        with pytest.raises(ex.OperandError, match=f"{name}=") as error:
            op.only(name, expected, default)
        assert "file_operator" in error.value.fix
