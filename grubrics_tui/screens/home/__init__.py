"""The list of runs: the first screen."""
