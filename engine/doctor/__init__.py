"""What went wrong with a run, why, and what to change."""
