"""Control flow: a choice between two bodies, a loop that asks after each turn, and one over the steps of a sequence."""
