"""Operations that move elements and compute none: reshaping, slicing, joining, gathering, padding."""
