"""A recording as nested boxes: slots, scopes, structure."""
