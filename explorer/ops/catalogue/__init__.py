"""Catalogue of all operations: recording functions, help pages and formulas."""
