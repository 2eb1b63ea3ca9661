"""The command line: explorer show | run | check | why | lab."""

from explorer.cli.main import main

__all__ = ["main"]
