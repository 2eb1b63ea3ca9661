"""Functions mapped over many samples with one recorded call."""
