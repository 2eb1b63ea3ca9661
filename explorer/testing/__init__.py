"""Assertions about plans, for tests that programs keep fusing, merging and batching as they did."""
