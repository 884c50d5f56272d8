"""Console text of any training program, read as a stream: what went wrong first, and why."""
