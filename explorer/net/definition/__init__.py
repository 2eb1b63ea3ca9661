"""Definitions of nets as plain data, with versions of blobs, edits, subgraphs, scopes and JSON."""
