"""Optimizers of modules: update rules with their rates, parameter groups, and the state of optimizers."""
