"""What is drawn, without coordinates: labels, summaries, totals, ports."""
