"""Recordings of plans and their runs."""
