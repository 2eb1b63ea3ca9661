"""Rows of a model file's operators: what the file says of each, whichever nodes were recorded for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FileOperator:
    """Operator of a model's file: its attributes and weights as the file names them.

    An operator may be recorded as many nodes, or as none, and a node's attributes are those of the engine's operation:
    a reader looks for the file's own ("pads", "group").
    """

    scope: int
    """row of its box"""
    attributes: tuple[tuple[str, str], ...] = ()
    """name and value as text; a long list is written as its first members, its length and a digest"""
    weights: tuple[tuple[str, str], ...] = ()
    """name of each weight in the operator, and its name in the file with its type"""
    doc: str = ""
    """description by the model's author"""
