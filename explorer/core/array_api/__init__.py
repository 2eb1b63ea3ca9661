"""Array interface of expressions: Python's operators, array methods, NumPy's functions and printing."""
