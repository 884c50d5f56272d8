"""What a config's reward pays for: right answers, hostile ones, one answer for every question."""
