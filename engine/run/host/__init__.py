"""The machine that runs execute on: GPUs, memory, installed software, detached processes."""
