"""Rewrite rules: their base class, the matchers that they use, and constant folding."""
