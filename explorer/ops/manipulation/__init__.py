"""Operations that move elements without arithmetic: reshaping, slicing, joining, gathering, padding."""
