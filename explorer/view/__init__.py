"""Draws recordings: plain data in, pictures and text out; imports explorer.record only."""
