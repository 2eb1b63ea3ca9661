"""Operations whose operands may be exchanged, by name: a recording has no operations, but their names."""

from __future__ import annotations

COMMUTATIVE = frozenset(
    {
        "add", "add_n", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "fmax", "fmin", "gcd", "hypot", "lcm",
        "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
        "not_equal",
    }
)  # fmt: skip
