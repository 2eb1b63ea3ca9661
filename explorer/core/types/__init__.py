"""Types of values: shape, dtype and device, and users' own dtypes and devices."""
