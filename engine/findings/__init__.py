"""Findings, symptoms, fixes and the context that rules get."""
