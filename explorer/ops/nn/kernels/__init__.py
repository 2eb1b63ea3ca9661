"""NumPy kernels of convolution and pooling, and of their gradients."""
