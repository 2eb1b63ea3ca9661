"""The comparison of two recordings: nodes, decisions and kernels matched."""
