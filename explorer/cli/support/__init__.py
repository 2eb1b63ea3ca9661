"""Helpers for several commands: options, array files, images, output files and the terminal."""
