"""Files on disk: untrusted input, locks, and atomic replacement."""
