"""The table of PNNX operator types, and types of common parameters."""
