"""Code generation: C functions for fused kernels."""
