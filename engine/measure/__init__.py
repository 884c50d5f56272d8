"""Measure models on held-out items: who answered what, with which score, and who is better.

An evaluation is a folder. Its setup (items, sampling, scoring) never changes; each target in it has
its weights' digest and one line per answer, so any summary can be computed again from the lines.
"""
