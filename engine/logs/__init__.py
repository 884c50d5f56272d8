"""The model of the log viewer: lines, rows, searches and times of a file of any size."""
