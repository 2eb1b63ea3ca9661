"""Dimension names as declared in a model file, and shapes formatted with them.

A length without a name is ambiguous: for a reader, a 1 named ``batch`` differs from an unnamed 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DimensionNames:
    """Dimension names of a node's value, "" for unnamed dimensions; equal names mean equal lengths."""

    names: tuple[str, ...]
    shape: str
    """shape as declared in the file: ``batch×?×64``; each "?" is a separate open length"""
    origin: str
    """location of the declaration: ``input 'x' of bert.onnx``"""


def shape_text(shape: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return a shape as a string: ``2×16×64``, with names ``batch=2×seq=16×64``; "scalar" without dimensions."""
    lengths = [
        f"{name}={length}" if name else str(length)
        for name, length in zip(names or [""] * len(shape), shape, strict=True)
    ]
    return "×".join(lengths) or "scalar"
