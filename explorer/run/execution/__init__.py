"""A schedule made ready to run, and the order in which its kernels run."""
