"""Built-in layers."""
