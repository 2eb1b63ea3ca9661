"""Operations along axes: sums, extremes, statistics, sorting."""
