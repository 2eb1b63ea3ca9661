"""Signatures: where a parameter's value is found, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.core.errors import OperandError
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.signature import Ints, Signature


def called(function: Any, *operands: Any, **arguments: Any) -> Any:
    names = tuple([f"x{place}" for place in range(len(operands))])
    definition = OperatorDefinition("Type", "op", names, ("y",), arguments)
    return Signature(function).call(OperatorContext(definition, operands, lambda name: pytest.fail(name)))


def pick(first: int, dim: int, index: int = 7) -> tuple[int, int, int]:
    return first, dim, index


@pytest.mark.parametrize(
    ("operands", "arguments", "expected"),
    [
        ((1, 2, 3), {}, (1, 2, 3)),
        ((1, 3), {"dim": 2}, (1, 2, 3)),
        ((1,), {"dim": 2}, (1, 2, 7)),
        ((), {"first": 1, "dim": 2, "index": 3}, (1, 2, 3)),
    ],
)
def test_an_argument_uses_no_position_among_the_inputs(
    operands: tuple[int, ...], arguments: dict[str, int], expected: tuple[int, ...]
) -> None:
    assert called(pick, *operands, **arguments) == expected


def sized(*, size: tuple[int | None, ...], dims: Ints = ()) -> tuple[int | None, ...]:
    return size + dims


def test_elements_of_a_list_may_have_one_of_several_types() -> None:
    assert called(sized, size=(2, None)) == (2, None)
    with pytest.raises(OperandError, match="size must be a list"):
        called(sized, size=(2, 0.5))
