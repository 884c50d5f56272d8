"""Texts for terminals: safe, short, sorted by fuzzy match."""
