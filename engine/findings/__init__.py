"""Findings, kinds of findings, fixes and the context that rules get."""
