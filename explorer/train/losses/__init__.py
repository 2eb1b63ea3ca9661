"""Losses of modules, their reductions and the weights of classes."""
