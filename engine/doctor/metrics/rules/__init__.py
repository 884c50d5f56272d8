"""What is wrong with a run's metrics, one file per kind of fault."""
