"""Data and scripts that the front end receives."""
