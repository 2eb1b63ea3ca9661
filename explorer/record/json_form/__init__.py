"""The JSON form of recordings: written, read, checked, and read from older versions."""
