"""Checkpoints on disk: which are complete, which run owns them, and which can be deleted."""
