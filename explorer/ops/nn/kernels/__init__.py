"""NumPy kernels of convolution, pooling and their gradients."""
