"""Functions mapped over many samples: one recorded call for all of them."""
