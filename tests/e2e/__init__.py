"""Whole programs: the examples and the command line."""
