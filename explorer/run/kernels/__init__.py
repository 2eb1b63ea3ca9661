"""From scheduled kernels to functions that run."""
