"""A program by names as plain data: operators, versions, edits, parts, scopes, JSON."""
