"""Vectorized bodies of functions, and mapped calls that are divided among workers."""
