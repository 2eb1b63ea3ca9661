"""Optimizers of modules: update rules with their rates, parameter groups, and their state."""
