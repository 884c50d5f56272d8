"""Rubrics: their text, points and prompts, gold scores, and the settings of judge and reward."""
