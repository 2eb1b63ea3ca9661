"""Content of a picture without coordinates: labels, summaries, totals and ports."""
