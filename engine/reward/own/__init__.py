"""Reward functions that a config brings along: found, loaded, run and ended apart from us."""
