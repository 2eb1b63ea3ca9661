"""Building of nets, which records the expressions of a definition, with inputs, weights and diagnostics."""
