"""Judges: language models, or the offline stand-in, that score answers with a rubric."""
