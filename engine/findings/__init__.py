"""What a finding, a change and a remedy are."""
