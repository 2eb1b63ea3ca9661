"""Definitions: programs over named values as plain data, with versions, edits, subgraphs, scopes and JSON."""
