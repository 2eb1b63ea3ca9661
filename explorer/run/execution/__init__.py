"""Programs, which are schedules with runners and memory, and executors that run them."""
