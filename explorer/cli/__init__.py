"""Command line ``explorer``: show, run, compare, check, why, diff, convert, lab, site and strip."""

from explorer.cli.main import main

__all__ = ["main"]
