"""Settings that frameworks read when they are imported."""

import os

# One thread for XLA, as for the other contestants of its tables (contest.one_thread).
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
# tinygrad only records and schedules, for a device that computes nothing.
os.environ.setdefault("DEV", "NULL")
