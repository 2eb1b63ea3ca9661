"""Coordinates: of each box alone, and of open boxes composed."""
