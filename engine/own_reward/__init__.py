"""Reward functions that a recipe brings along: found, loaded, run and ended apart from us."""
