"""Vectorized bodies of functions, and mapped calls divided among workers."""
