"""Used by all other folders: errors, JSON files, locks, masking, followed files, filters."""
