"""The figures: scripts/plot.py draws all of them, summary.py and compare.py those of a run."""
