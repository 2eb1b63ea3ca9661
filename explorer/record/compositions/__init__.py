"""Known compositions that a program writes by hand, found in its recorded graph."""
