"""Checks before a launch: what is known to fail is refused before it costs an hour."""
