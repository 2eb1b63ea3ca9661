"""Known functions that a program composes from single operations, found in its recorded graph."""
