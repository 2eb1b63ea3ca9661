"""Programs, and executors that run the kernels of a program. A program is a schedule with runners and memory."""
