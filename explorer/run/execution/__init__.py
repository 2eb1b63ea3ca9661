"""Programs, which are schedules with runners and memory, and the order in which their kernels run."""
