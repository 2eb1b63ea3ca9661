"""Files on disk: opened without trust, locked, and replaced as a whole."""
