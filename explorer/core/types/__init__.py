"""Types of values (shape, dtype and device), with user-defined dtypes and devices."""
