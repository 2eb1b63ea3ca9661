"""Plans on Dask workers: serialized programs, the pieces that each worker runs, and their distribution."""
