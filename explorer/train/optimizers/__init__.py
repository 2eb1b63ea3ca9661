"""Optimizers of modules: update rules with their rates, groups of parameters, and the state that they keep."""
