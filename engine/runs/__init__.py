"""Runs on this host: their directory, state, supervisor and list."""
