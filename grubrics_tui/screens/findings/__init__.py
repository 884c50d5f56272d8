"""Findings of a run, and what to do about them."""
