"""Dimension names as declared in a model file, and shapes formatted with these names.

A length alone does not identify a dimension: a dimension of length 1 may be the one named ``batch``, or a dimension
without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DimensionNames:
    """Dimension names of a node's value; "" for a dimension without a name. Equal names mean equal lengths."""

    names: tuple[str, ...]
    shape: str
    """shape as declared in the file, such as ``batch×?×64``; each "?" is a separate length that the file does not
    define
    """
    origin: str
    """location of the declaration, such as ``input 'x' of bert.onnx``"""


def shape_text(shape: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return a shape as a string: ``2×16×64``, or ``batch=2×seq=16×64`` with names, or "scalar" without dimensions."""
    lengths = [
        f"{name}={length}" if name else str(length)
        for name, length in zip(names or [""] * len(shape), shape, strict=True)
    ]
    return "×".join(lengths) or "scalar"
