"""Preflight checks, and the launch that follows them."""
