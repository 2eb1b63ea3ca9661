"""Rows of known compositions: functions that several recorded nodes compute together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Composition:
    """Recorded nodes that together compute a known function, and which one: "GELU", "softmax"."""

    name: str
    node: int
    """the node that has the result"""
    operand: int
    """the node that has the operand; −1 if none has it by itself, such as the −x of 1 / (1 + exp(x))"""
    members: tuple[int, ...]
    """all its nodes, the result too; others may read their values"""
