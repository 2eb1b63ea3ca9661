"""Control flow: conditionals, while loops, and loops over the steps of sequences."""
