"""Losses of modules, their reductions and class weights."""
