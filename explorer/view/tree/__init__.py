"""Recording as nested boxes: slots, scopes and structure."""
