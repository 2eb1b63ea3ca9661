"""Building of nets from definitions to expressions, with inputs, weights, example shapes and diagnostics."""
