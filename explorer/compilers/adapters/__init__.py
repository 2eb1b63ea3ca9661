"""Adapters of compilers: one module per compiler, which is imported when a program is first compiled with it."""
