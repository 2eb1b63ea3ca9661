"""Command line: explorer show | run | check | why | diff | lab."""

from explorer.cli.main import main

__all__ = ["main"]
