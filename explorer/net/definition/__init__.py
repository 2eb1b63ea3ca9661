"""Definitions: programs by names as plain data, with versions, edits, subgraphs, scopes and JSON."""
