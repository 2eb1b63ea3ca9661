"""The notebook widget, and its progress bar."""
