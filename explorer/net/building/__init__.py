"""Building of nets: from a definition to expressions, with inputs, weights, example shapes and diagnostics."""
