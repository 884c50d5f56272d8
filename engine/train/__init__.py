"""What runs inside training processes: verl's entry points, the CPU platform, the HF rollout."""
