"""Operators of a damaged file without their operands raise an error with their names."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.core.errors import ReaderError
from explorer.formats import layer_types

OPERATORS = {
    "no operand": "{} op 0 1 y",
    "two results of no operand": "{} op 0 2 y z",
    "an empty list": "prim::ListConstruct list 0 1 e\n{} op 1 1 e y",
}


@pytest.mark.parametrize("written", OPERATORS.values(), ids=OPERATORS)
def test_operators_without_operands_are_reported_by_name(written: str, tmp_path: Path) -> None:
    """Every operator type without operands is a problem of the net, unless it needs none."""
    path = tmp_path / "m.pnnx.param"
    for type in sorted(layer_types()):
        path.write_text(
            f"7767517\n{2 + written.count(chr(10))} 4\npnnx.Input in 0 1 x #x=(1,4,4)f32\n{written.format(type)}\n"
        )
        try:
            problems = ex.open(path).problems().values()
        except ex.ExplorerError as error:
            problems = [error]
        for problem in problems:
            cause: BaseException | None = problem
            while cause is not None:
                assert not isinstance(cause, ReaderError), f"{type}: {problem}"
                cause = cause.__cause__ or cause.__context__
