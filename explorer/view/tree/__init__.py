"""Nested boxes of a recording: slots, scopes and structure."""
