"""Plans on workers of Dask: programs as bytes, pieces of them that a worker runs, and who runs which."""
