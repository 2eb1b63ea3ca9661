"""Diagnosis of plans: smallest changes that would apply a declined rule, minimal reproducers, and estimates."""
