"""Notebook widget and progress bar."""
