"""The pass that orders kernels, and the schedule that it makes."""
