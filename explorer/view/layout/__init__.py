"""Coordinates of each box, and of open boxes composed together."""
