"""The rollouts of a run, step by step and group by group."""
