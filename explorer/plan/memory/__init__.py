"""Memory of a plan: which buffer each result takes, where buffers lie in the arena, and which reshapes copy."""
