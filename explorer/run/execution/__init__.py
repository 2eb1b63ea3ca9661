"""Programs, which are schedules with runners and memory, and the order in which the kernels of a program run."""
