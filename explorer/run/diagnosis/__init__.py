"""Diagnosis of plans: the smallest change that would apply a declined rule, and minimal reproducers of decisions."""
