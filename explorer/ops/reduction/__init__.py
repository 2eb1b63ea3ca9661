"""Operations along axes: sums, extrema, statistics and sorting."""
