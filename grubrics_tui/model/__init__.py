"""What screens show, without widgets."""
