"""Questions to a plan: the smallest change by which a refusal falls, and the smallest program that shows a decision."""
