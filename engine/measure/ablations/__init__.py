"""Ablations: arms that differ from a base in a few values, each trained with the same seeds.

The sample of a verdict is the seeds. A plan is a folder; its runs are ordinary runs, whose state is
in their directories. An ablation that was interrupted continues with what is missing.
"""
