"""What everything else uses: errors, JSON files, locks, masking, growing files."""
