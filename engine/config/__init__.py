"""A config and its overrides: read, resolved and composed for verl."""
