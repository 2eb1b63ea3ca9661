"""Integers as values of options."""

from __future__ import annotations

import argparse


def positive(text: str) -> int:
    """Return an integer of at least 1; argparse prints the error for other text."""
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer of at least 1")
    return int(text)
