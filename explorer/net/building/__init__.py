"""From a definition to expressions: inputs, weights, example shapes, diagnostics."""
