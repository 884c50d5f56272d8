"""Intervals, paired comparisons and sample sizes for evaluations and ablations.

Two claims need two units. *This checkpoint is better than that one*: the items of the data set are
the sample, and the checkpoints are fixed. *This change is better*: the seeds are the sample, and
the items are averaged within each seed. No function mixes them: what is passed in is the sample.
"""
