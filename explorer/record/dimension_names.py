"""Names of dimensions as a model's file declares them, and shapes written with them.

A length alone says little: a 1 that the file calls ``batch`` is another thing to a reader than a 1 without a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DimensionNames:
    """Names of the dimensions of a node's value, "" of one without: equal names are one length."""

    names: tuple[str, ...]
    shape: str
    """shape as the file declares it: ``batch×?×64``; each "?" is an open length of its own"""
    origin: str
    """place of the declaration: ``input 'x' of bert.onnx``"""


def shape_text(shape: Sequence[int], names: Sequence[str] = ()) -> str:
    """Return a shape as text: ``2×16×64``, with names ``batch=2×seq=16×64``; "scalar" without dimensions."""
    lengths = [
        f"{name}={length}" if name else str(length)
        for name, length in zip(names or [""] * len(shape), shape, strict=True)
    ]
    return "×".join(lengths) or "scalar"
