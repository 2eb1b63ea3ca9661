"""The table of PNNX operator types, and readers of their arguments."""
