"""Ablations: plan the arms, watch the table fill in."""
