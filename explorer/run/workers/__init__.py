"""Plans on Dask workers: serialized programs, the kernels that each worker runs, and their distribution."""
