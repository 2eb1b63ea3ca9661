"""What kernels stand on: memory, threads, devices, clocks."""
