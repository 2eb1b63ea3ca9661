"""Rewrite rules: their base class, their matchers, and constant folding."""
