"""Known compositions written by hand in a program, found in its recorded graph."""
