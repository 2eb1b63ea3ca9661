"""Operations on each element by itself, with NumPy's broadcasting."""
