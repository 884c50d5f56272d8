"""What stays after runs: comparisons and experiment-log entries."""
