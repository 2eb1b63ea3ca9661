"""Elementwise functions: rejected operands, and integers beyond the range of a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.pnnx.nets import computed
from tests.support.refusals import refused

TRUTHS = np.array([True, False])
REAL = np.float32([1, 2, 3])
COMPLEX = np.array([1 + 2j], np.complex64)


@pytest.mark.parametrize(
    ("type", "operands", "texts"),
    [
        ("torch.positive", [TRUTHS], ["an operand 2 bool", "the operand must not be boolean"]),
        ("aten::angle", [COMPLEX], ["an operand 1 complex64", "the operand must be real"]),
        ("aten::isposinf", [COMPLEX], ["(aten::isposinf)", "the operand must be real"]),
        ("aten::sgn", [COMPLEX], ["(aten::sgn)", "the operand must be real"]),
        ("aten::xlogy", [2.0, 3.0], ["operands [2.0, 3.0]", "one of the operands must be a tensor"]),
        ("aten::fake_quantize_per_tensor_affine", [REAL, 0.1, 0, 9, 2], ["9 … 2", "quant_min must not be above"]),
        ("aten::fake_quantize_per_tensor_affine", [REAL, "fine", 0, 0, 2], ["scale is 'fine'", "a tensor of numbers"]),
        ("aten::fake_quantize_per_channel_affine", [REAL, REAL[:2], REAL, 0, 0, 2], ["one of each per channel"]),
        ("aten::log2", [COMPLEX, 1], ["operand 1 (x1): not supported by explorer's aten::log2"]),
    ],
)
def test_errors_of_invalid_operands_contain_the_rule(type: str, operands: list[Any], texts: list[str]) -> None:
    with refused(ex.ExplorerError, *texts):
        computed(type, *operands)


def test_an_integer_out_of_range_raises_an_error_where_torch_does() -> None:
    """Sums wrap around, but elements assigned to a tensor do not."""
    bytes = np.uint8([1, 200])
    np.testing.assert_array_equal(computed("aten::add", bytes, 300)[0], np.uint8([45, 244]))
    assert computed("aten::add", bytes, 300)[0].dtype == np.uint8
    with refused(ex.ExplorerError, "300 as an element of dtype uint8", "the value must fit the dtype"):
        computed("aten::masked_fill", bytes, TRUTHS, 300)
