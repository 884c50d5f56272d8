"""Logs that other programs write, one module per format."""
