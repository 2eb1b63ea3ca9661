"""Runtime of kernels: memory, threads, devices and timing."""
