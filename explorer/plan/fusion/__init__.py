"""The pass that fuses: which nodes share a kernel, and the tiles in which it runs."""
