"""What several scripts share: the ladder and its runs as data, the course's order, the list of mutants."""
