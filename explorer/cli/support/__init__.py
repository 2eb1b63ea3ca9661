"""Helpers that several commands use: options, array files, images, output files and the terminal."""
