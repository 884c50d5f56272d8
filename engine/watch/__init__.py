"""Reading what runs write: growing files, metric names, series."""
