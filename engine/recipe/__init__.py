"""A recipe and its overrides: read, checked, composed for verl."""
