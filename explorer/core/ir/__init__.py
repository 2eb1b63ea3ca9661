"""Intermediate representation: expressions, operations, tensors, functions, calls and graph traversal."""
