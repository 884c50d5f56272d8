"""Checkpoints on disk: which are whole, whose they are, what can go."""
