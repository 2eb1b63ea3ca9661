"""Optimizers of modules: update rules with rates, parameter groups and state."""
