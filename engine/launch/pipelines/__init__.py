"""Pipelines: stages such as prepare, SFT, GRPO and evaluate, one after the other.

A pipeline is a run that launches other runs: one for each stage.
"""
