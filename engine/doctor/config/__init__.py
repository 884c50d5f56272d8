"""Findings on the data files that a recipe names."""
