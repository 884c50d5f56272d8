"""What several commands share: options, output, trust, following a run."""
