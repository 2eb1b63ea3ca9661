"""Memory of a plan: the buffer of each result, the buffers' offsets in the arena, and the reshapes that copy."""
