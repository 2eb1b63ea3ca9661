"""Replay rules that all views share: steps, nodes at a position, boxes drawn open."""
