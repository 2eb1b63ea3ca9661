"""Command line ``explorer``: show, run, profile, compare, check, why, diff, convert, cut, edit, lab, site, strip."""

from explorer.cli.main import main

__all__ = ["main"]
