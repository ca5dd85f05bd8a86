"""What scripts/fuzz.py consists of: cases.py makes commands, check.py judges what they did,
shrink.py finds the smallest command that does the same."""
