"""The types of values: shape, dtype and device, users' own dtypes and devices, and keys that are equal bit by bit."""
