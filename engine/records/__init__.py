"""What stays after a run: experiment-log entries."""
