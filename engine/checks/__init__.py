"""Preflight checks: a launch that is known to fail is refused before it costs an hour."""
